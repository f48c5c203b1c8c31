"""A planner over gRPC, offline, and somebody else's tool service, as behaviour tests need them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

import chassis
from chassis import Registration, Service
from chassis.channels import Peers
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from hansei.planner.v1 import (
    planner_service_pb2_grpc,
    tool_pb2,
    tool_service_pb2,
    tool_service_pb2_grpc,
)
from services.planner.bootstrap import build
from services.planner.settings import PlannerSettings

NOBODY = "127.0.0.1:1"


class Tools(tool_service_pb2_grpc.ToolServiceServicer):
    """A tool service outside of hansei."""

    def __init__(self) -> None:
        self.calls: list[tool_service_pb2.CallToolRequest] = []
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def ListTools(self, request: Any, context: Any) -> tool_service_pb2.ListToolsResponse:
        return tool_service_pb2.ListToolsResponse(
            tools=[
                tool_pb2.Tool(name="web_search", description="looks up", effect=tool_pb2.EFFECT_PURE),
                tool_pb2.Tool(name="code_execute", description="runs", effect=tool_pb2.EFFECT_KEYED),
            ]
        )

    async def CallTool(self, request: tool_service_pb2.CallToolRequest, context: Any) -> Any:
        self.calls.append(request)
        if request.input.query == "hang":
            self.entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.input.query == "huge":
            return _text("x" * 300_000)
        if request.input.query == "fail":
            return tool_service_pb2.CallToolResponse(output=tool_pb2.ToolOutput(success=False, error="refused"))
        hits = [pb.Hit(id="1", content="空は青い。", source="web", score=0.97)] * 2
        return tool_service_pb2.CallToolResponse(output=tool_pb2.ToolOutput(success=True, hits=hits))

    async def FindOutcome(self, request: Any, context: Any) -> tool_service_pb2.FindOutcomeResponse:
        return tool_service_pb2.FindOutcomeResponse(happened=False)


def _text(text: str) -> tool_service_pb2.CallToolResponse:
    return tool_service_pb2.CallToolResponse(output=tool_pb2.ToolOutput(success=True, text=text))


@asynccontextmanager
async def running(folder: Path, tools: Tools | None = None, **more: Any) -> AsyncIterator[Any]:
    """Yield a stub of a planner over the database in `folder`, offline, with `more` settings."""
    async with _tool_service(tools) as address:
        fields: dict[str, Any] = {
            "llm_provider": "offline",
            "planner_database_url": str(folder / "planner.db"),
            "grace_config": folder / "none.yml",
            "planner_tool_addrs": address,
            "planner_lease_seconds": 1.0,
            "search_addr": NOBODY,
            "curator_addr": NOBODY,
            "evidence_addr": NOBODY,
            "planner_guards_dataset": "off",
        }
        settings = PlannerSettings(**fields | more)
        peers = Peers(settings.list_peer_addresses())
        async with (
            chassis.serve(build(settings, peers)) as planner,
            grpc.aio.insecure_channel(planner.address) as channel,
        ):
            yield planner_service_pb2_grpc.PlannerServiceStub(channel)
        await peers.close()


@asynccontextmanager
async def _tool_service(tools: Tools | None) -> AsyncIterator[str]:
    if tools is None:
        yield ""
        return
    registration = Registration(tool_service_pb2_grpc.add_ToolServiceServicer_to_server, tools)
    async with chassis.serve(Service("tools", [registration])) as served:
        yield served.address


def step(step_id: int, action: pb.Action.ValueType, query: str, *depends_on: int, **more: Any) -> pb.PlanStep:
    return pb.PlanStep(step_id=step_id, action=action, description="d", query=query, depends_on=depends_on, **more)


def plan(*steps: pb.PlanStep, **more: Any) -> pb.Plan:
    return pb.Plan(original_query="空は何色？", complexity=0.5, steps=steps, **more)


ASK = plan(step(1, pb.ACTION_ASK_USER, "何色？"))


async def events(stream: Any) -> list[pb.ExecutionEvent]:
    return [response.event async for response in stream]


def kinds(found: list[pb.ExecutionEvent]) -> list[str]:
    return [str(event.WhichOneof("event")) for event in found]


def answer(question: pb.ExecutionEvent, **response: Any) -> service_pb.ResumePlanRequest:
    request = question.intervention_requested
    return service_pb.ResumePlanRequest(
        execution_id=question.execution_id,
        response=pb.InterventionResponse(**response),
        answer_token=request.answer_token,
        plan_version=request.plan_version,
        step_id=request.step_id if request.HasField("step_id") else None,
        request_id=str(uuid.uuid4()),
    )


async def expect_error(call: Any) -> tuple[grpc.StatusCode, str]:
    answered = events(call) if hasattr(call, "read") else call
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answered
    return caught.value.code(), str(caught.value.details())


async def tools_are_known(stub: Any) -> None:
    """Wait until the planner has found `Tools`."""
    await wait_for_tool_result(stub, pb.ACTION_CODE_EXECUTE, "fail")


async def wait_for_tool_result(stub: Any, action: pb.Action.ValueType, query: str) -> pb.ExecutionResult:
    """Return the result of a plan of one step, as soon as the planner has found its tool in the background."""
    once = pb.Budget(max_tool_calls=1)
    request = service_pb.RunPlanRequest(plan=plan(step(1, action, query)), budget=once)
    async with asyncio.timeout(60):
        while True:
            try:
                result: pb.ExecutionResult = (await stub.RunPlan(request)).result
            except grpc.aio.AioRpcError as error:
                if "のツールがない" not in (error.details() or ""):
                    raise
            else:
                return result
