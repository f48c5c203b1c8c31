"""The HTTP application over scripted peers, and a client of it that needs no socket."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from chassis.calls import get_correlation_id
from chassis.server.admission import Admission
from chassis.server.progress import CallsInProgress
from gateway.access.rpc.guard import AccessGuard
from gateway.adapters.health import ServiceHealth
from gateway.adapters.methods import ContractMethods
from gateway.contract import Contract, get_path, load_contract
from gateway.http.app import create_app
from gateway.http.bindings import Binding, list_bindings
from gateway.orchestrator.learn import Learning
from gateway.orchestrator.workflow import ReflectionWorkflow
from gateway.rpc.servicer import GatewayServicer
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1 import playbook_pb2
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search
from tests.contract.readmes import example_lines, parse_call

VALUES = {
    "dataset": "d",
    "execution_id": "0a1b2c3d4e5f",
    "bullet_id": "b-1",
    "trajectory_id": "t-1",
    "number": "3",
    "key_id": "0123456789abcdef",
    "job_id": "5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c01",
    "webhook_id": "mine",
}
"""Fields that fit into a path, or belong into a query."""


CONTRACT = load_contract()
BINDINGS = list_bindings(CONTRACT.list_methods())
FOUND = search.SearchResponse(
    results=[
        search_pb2.SearchResult(bullet=playbook_pb2.Bullet(id=name, content=f"日本語 {name}"), combined_score=0.5)
        for name in ("b-1", "b-2")
    ],
    revision=3,
)


@dataclass
class Peers:
    """Every service behind the gateway. `raises` maps a method to its error; `requests` collects requests."""

    raises: dict[str, Exception] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    correlation_ids: list[str] = field(default_factory=list)
    failure: str = ""

    def _record(self, method: str, request: Any) -> None:
        self.requests.append(request)
        self.correlation_ids.append(get_correlation_id())
        if method in self.raises:
            raise self.raises[method]

    async def GetDataset(self, request: playbook.GetDatasetRequest) -> playbook.GetDatasetResponse:
        self._record("dataset", request)
        return playbook.GetDatasetResponse(dataset=playbook.Dataset(revision=3))

    async def Search(self, request: search.SearchRequest) -> search.SearchResponse:
        self._record("search", request)
        return FOUND

    async def Recall(self, request: evidence.RecallRequest) -> evidence.RecallResponse:
        self._record("recall", request)
        return evidence.RecallResponse(results=FOUND.results[:1], revision=3, serving_id="serving-1", randomized=True)

    async def Generate(self, request: generation.GenerateRequest) -> generation.GenerateResponse:
        self._record("generate", request)
        attempt = trajectory.Trajectory(generated_answer="答え {x}", status=trajectory.TRAJECTORY_STATUS_SUCCESS)
        if self.failure:
            attempt = trajectory.Trajectory(status=trajectory.TRAJECTORY_STATUS_FAILURE, error_message=self.failure)
        return generation.GenerateResponse(trajectory=attempt, model="scripted")

    async def Curate(self, request: curator.CurateRequest) -> curator.CurateResponse:
        self._record("curate", request)
        return curator.CurateResponse(saved=True, revision=4)

    async def PrepareCuration(self, request: curator.PrepareCurationRequest) -> curator.PrepareCurationResponse:
        self._record("prepare", request)
        return curator.PrepareCurationResponse(revision=3)

    async def Reflect(self, request: reflector.ReflectRequest) -> reflector.ReflectResponse:
        self._record("reflect", request)
        return reflector.ReflectResponse(result=trajectory.ReflectionResult(iteration_count=1))

    def get_function(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """Run the real Learn; answer every other method from `answers`, or with an empty message."""
        if method.containing_service.name == "GatewayService":
            servicer = GatewayServicer(Learning(self, self), ReflectionWorkflow(self, self, self, self))
            return ContractMethods(
                self.get_channel, CONTRACT, {method.containing_service.full_name: servicer}
            ).get_function(method)
        scripted = self.answers.get(method.name, [GetMessageClass(method.output_type)()])
        if method.name == "Search" and not self.answers:
            scripted = [FOUND]

        async def respond(request: Any) -> bytes:
            self._record(method.name, request)
            return bytes(scripted[0].SerializeToString())

        async def all_of(requests: AsyncIterator[Any]) -> bytes:
            async for request in requests:
                self._record(method.name, request)
            return bytes(scripted[0].SerializeToString())

        async def many(request: Any) -> AsyncIterator[bytes]:
            for answer in scripted:
                yield answer.SerializeToString()
            self._record(method.name, request)

        if method.client_streaming:
            return all_of
        return many if method.server_streaming else respond

    def get_channel(self, peer: str) -> Any:
        raise AssertionError(f"{peer} is scripted")

    async def list_states(self) -> list[ServiceHealth]:
        return [ServiceHealth("curator", "SERVING"), ServiceHealth("search", "UNREACHABLE", "search does not answer")]


def example_of(method: str) -> Any:
    """Return the JSON of the first README line that calls a method, such as `search.v1.SearchService/Search`."""
    lines = (line for line in example_lines() if re.search(rf"hansei\.{re.escape(method)}(\s|$)", line.command))
    text, decoder, found = parse_call(next(lines)).data.strip() or "{}", json.JSONDecoder(), []
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found if len(found) > 1 else found[0]


def request_arguments(binding: Binding, **values: str) -> dict[str, Any]:
    """Return the arguments of `httpx` for the README's example of a method, with these values in the path."""
    path = binding.path.format(**(VALUES | values))
    request: dict[str, Any] = {"method": binding.verb, "url": path}
    has_fields = bool(binding.body) or binding.verb == "DELETE"
    example = example_of(get_path(binding.method).removeprefix("/hansei.")) if has_fields else {}
    if binding.takes_file:
        return request | {"content": base64.b64decode(example.pop(binding.body)), "params": example}
    if isinstance(example, dict):
        example = {name: value for name, value in example.items() if name not in binding.variables}
    if not binding.body:
        return request | {"params": example}
    return request | {"json": example[binding.body] if binding.body_field else example}


@asynccontextmanager
async def client_of(
    peers: Peers,
    *,
    guard: AccessGuard | None = None,
    limit: int = 10,
    contract: Contract = CONTRACT,
    **options: Any,
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the application over these peers."""
    app = create_app(
        contract,
        peers,
        peers.list_states,
        admission=Admission("HTTP requests", limit, 1.5),
        streams=Admission("HTTP streams", limit, 1.5),
        progress=options.pop("progress", None) or CallsInProgress(),
        guard=guard,
        **options,
    )
    # The server returns an unexpected error and raises it again for its log; only the response matters here.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client
