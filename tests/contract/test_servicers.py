"""Call every servicer with grpcio-testing: a response and an error of each module.

The library runs handlers in threads and does not support grpc.aio, so `_blocking` runs each coroutine on the loop of
the services and encodes errors as the edge does. Tests of the edge itself use servers in the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import grpc_testing  # type: ignore[import-untyped]
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass

import chassis
from allinone.bootstrap import StackSettings, build
from chassis import status
from chassis.calls import Call, create_id, current_call
from chassis.errors import HanseiError
from chassis.idempotency import normalize_key
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.client.local import set_environment

SECONDS = 30
ID = "00000000-0000-4000-8000-000000000001"
ID2 = "00000000-0000-4000-8000-000000000002"
RUN = {"dataset": "d", "query": "q", "generated_answer": "a", "status": "TRAJECTORY_STATUS_SUCCESS"}
TEAM = {"team_id": "t", "team_name": "T"}

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("gateway.v1.GatewayService/Answer", {"query": "q", "dataset": "d"}, "OK"),
    ("gateway.v1.GatewayService/Learn", {"request_id": ID, "dataset": "other", "trajectory": RUN}, "INVALID_ARGUMENT"),
    ("gateway.v1.RoundsService/RunRounds", {"user_prompt": "q", "teams": [TEAM], "max_rounds": 1}, "OK"),
    ("gateway.v1.RoundsService/RunRounds", {"user_prompt": "q", "teams": [TEAM, TEAM]}, "INVALID_ARGUMENT"),
    ("gateway.v1.AccessService/WhoAmI", {}, "OK"),
    ("gateway.v1.AccessService/RevokeKey", {"key_id": "0" * 16}, "NOT_FOUND"),
    ("gateway.v1.BulkService/ListJobs", {}, "OK"),
    ("gateway.v1.BulkService/GetJob", {"job_id": ID}, "NOT_FOUND"),
    ("curator.v1.CuratorService/PrepareCuration", {"request_id": ID, "dataset": "d"}, "OK"),
    ("curator.v1.CuratorService/GetCuration", {"request_id": ID}, "NOT_FOUND"),
    ("playbook.v1.PlaybookService/GetPlaybook", {"dataset": "d"}, "NOT_FOUND"),
    ("playbook.v1.PlaybookService/GetPlaybook", {"dataset": "d", "revision": 99}, "NOT_FOUND"),
    ("playbook.v1.PlaybookService/SetPolicy", {"request_id": ID2, "dataset": "d", "policy": {}}, "OK"),
    ("playbook.v1.PlaybookService/RestoreRevision", {"request_id": ID, "dataset": "d", "revision": 9}, "OUT_OF_RANGE"),
    ("playbook.v1.PlaybookService/ExportPlaybook", {"dataset": "d"}, "OK"),
    ("playbook.v1.PlaybookService/ExportPlaybook", {"dataset": "d", "revision": 99}, "OUT_OF_RANGE"),
    ("playbook.v1.PlaybookService/WatchPlaybook", {"dataset": "../d"}, "INVALID_ARGUMENT"),
    ("reflector.v1.ReflectorService/Reflect", {"trajectory": RUN, "dataset": "d"}, "OK"),
    ("reflector.v1.ReflectorService/ParseTrajectories", {"content": "AAAA", "dataset": "d"}, "INVALID_ARGUMENT"),
    ("search.v1.SearchService/Search", {"dataset": "d", "query": {"query_text": "q"}}, "OK"),
    ("search.v1.SearchService/Search", {"dataset": "d", "query": {"query_text": "q", "alpha": 7}}, "INVALID_ARGUMENT"),
    ("search.v1.CollectionService/ListCollections", {}, "OK"),
    ("search.v1.CollectionService/GetCollection", {"name": "no-such"}, "NOT_FOUND"),
    ("planner.v1.GeneratorService/Generate", {"query": "q", "dataset": "d"}, "OK"),
    ("planner.v1.PlannerService/ListExecutions", {}, "OK"),
    ("planner.v1.PlannerService/GetExecution", {"execution_id": "no-such"}, "NOT_FOUND"),
    ("validator.v1.ValidatorService/ListReportKinds", {}, "OK"),
    ("validator.v1.ValidatorService/GetReportKind", {"name": "no-such"}, "NOT_FOUND"),
    ("validator.v1.EvaluatorService/Evaluate", {"user_query": "q", "submission": "s"}, "OK"),
    ("validator.v1.EvaluatorService/Evaluate", {"user_query": " ", "submission": "s"}, "INVALID_ARGUMENT"),
    ("validator.v1.LeaderboardService/GetRanking", {"execution_id": "no-such"}, "OK"),
    ("validator.v1.LeaderboardService/GetBestSubmission", {"execution_id": "no-such"}, "NOT_FOUND"),
    ("evidence.v1.EvidenceService/GetTrials", {"dataset": "d"}, "OK"),
    ("evidence.v1.EvidenceService/ReportOutcome", {"dataset": "d", "serving_id": "s", "reward": 1}, "NOT_FOUND"),
]


class HandlerCollector:
    """Takes the place of a server in the generated functions that register servicers."""

    def __init__(self) -> None:
        self.handlers: dict[str, dict[str, Any]] = {}

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore handlers without names; `add_registered_method_handlers` gets the same ones."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.handlers[service] = handlers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc_testing.Server]:
    """Yield a server of grpcio-testing with the servicers of a running stack."""
    settings = build_temp_settings(tmp_path_factory.mktemp("stack"))
    built: list[chassis.Service] = []
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def run_stack() -> None:
        stack_settings = chassis.read_settings(StackSettings, lame_duck_seconds=0)
        opened: list[chassis.Peers] = []

        def compose(own: chassis.OwnServer) -> list[chassis.Service]:
            opened.append(chassis.Peers.from_settings(stack_settings, own, None))
            built.extend(build(stack_settings, opened[0], http=False))
            return built

        async with chassis.serve(compose):
            ready.set()
            await stop.wait()
        await opened[0].close()

    with set_environment(settings):
        thread = threading.Thread(target=lambda: loop.run_until_complete(run_stack()), daemon=True)
        thread.start()
        assert ready.wait(SECONDS)
    collector = HandlerCollector()
    for service in built:
        for registration in service.registrations:
            registration.add(registration.servicer, collector)
    servicers = {
        Default().FindServiceByName(name): type(
            "Servicer",
            (),
            {method: staticmethod(_blocking(loop, f"/{name}/{method}", h)) for method, h in handlers.items()},
        )
        for name, handlers in collector.handlers.items()
    }
    yield grpc_testing.server_from_dictionary(servicers, grpc_testing.strict_real_time())
    loop.call_soon_threadsafe(stop.set)
    thread.join()


def _blocking(loop: asyncio.AbstractEventLoop, path: str, handler: Any) -> Callable[..., Any]:
    """Return the handler as a function, or as a generator, that runs it on the loop."""

    def run_coroutine(request: Any, context: grpc.ServicerContext, start: Callable[[], Any]) -> Any:
        async def call_servicer() -> Any:
            current_call.set(Call(path, create_id(), normalize_key(request)))
            return await start()

        try:
            return asyncio.run_coroutine_threadsafe(call_servicer(), loop).result(SECONDS)
        except HanseiError as error:
            wire = status.encode(error, "servicers")
            context.abort(wire.code, str(error))

    def unary(request: Any, context: grpc.ServicerContext) -> Any:
        return run_coroutine(request, context, lambda: handler.unary_unary(request, context))

    def stream(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        async def responses() -> list[Any]:
            return [response async for response in handler.unary_stream(request, context)]

        found: list[Any] = run_coroutine(request, context, responses)
        yield found[-1]

    return stream if handler.response_streaming else unary


@pytest.mark.parametrize(("path", "fields", "code"), CALLS, ids=[f"{path} {code}" for path, _, code in CALLS])
def test_a_servicer_answers(server: grpc_testing.Server, path: str, fields: dict[str, Any], code: str) -> None:
    service, _, name = f"hansei.{path}".partition("/")
    method = Default().FindServiceByName(service).methods_by_name[name]
    request = json_format.ParseDict(fields, GetMessageClass(method.input_type)())
    invoke = server.invoke_unary_stream if method.server_streaming else server.invoke_unary_unary
    rpc = invoke(method, (), request, SECONDS)
    if method.server_streaming and code == "OK":
        assert isinstance(rpc.take_response(), GetMessageClass(method.output_type))
    *response, _, found, details = rpc.termination()
    assert found is grpc.StatusCode[code], details
    if response and code == "OK":
        # The stored response of a mutation is passed on as bytes.
        assert isinstance(response[0], GetMessageClass(method.output_type) | bytes)


def test_every_servicer_has_a_response_and_an_error() -> None:
    """Generate reports failures in its response (P-121)."""
    responding = {path.partition("/")[0] for path, _, code in CALLS if code == "OK"}
    failing = {path.partition("/")[0] for path, _, code in CALLS if code != "OK"}
    assert responding == failing | {"planner.v1.GeneratorService"}
