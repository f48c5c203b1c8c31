"""Tools of other services: any service that implements `hansei.planner.v1.ToolService`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from chassis.channels import Peers
from chassis.errors import HanseiError, shorten
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from hansei.planner.v1 import tool_pb2, tool_service_pb2, tool_service_pb2_grpc
from services.planner.domain.confidence import clamp01
from services.planner.domain.events import Effect
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.usecases.tools import ToolRegistry

_log = get_logger(__name__)

_DISCOVERY = RetryPolicy(attempts=None, first_pause=1.0, longest_pause=10.0)
_EFFECTS = {
    tool_pb2.EFFECT_PURE: Effect.PURE,
    tool_pb2.EFFECT_KEYED: Effect.KEYED,
    tool_pb2.EFFECT_RECONCILABLE: Effect.RECONCILABLE,
}


class RemoteTool:
    """One tool of a ToolService."""

    def __init__(self, tool: tool_pb2.Tool, stub: tool_service_pb2_grpc.ToolServiceAsyncStub) -> None:
        self.name = tool.name
        self.description = tool.description
        self.effect = _EFFECTS.get(tool.effect, Effect.UNSAFE)
        self._stub = stub

    async def run(self, call: ToolInput) -> ToolResult:
        """Call the tool with the step's timeout as deadline; cancellation reaches the service. Raises HanseiError."""
        request = tool_service_pb2.CallToolRequest(
            name=self.name, input=_encode_input(call), idempotency_key=call.key or "-"
        )
        reply = await self._stub.CallTool(request, timeout=call.seconds)
        return _decode_output(reply.output)

    async def find_outcome(self, key: str) -> ToolResult | None:
        """Return the result of the call with this key; None if it did not happen. Raises HanseiError."""
        request = tool_service_pb2.FindOutcomeRequest(name=self.name, idempotency_key=key)
        reply = await self._stub.FindOutcome(request)
        return _decode_output(reply.output) if reply.happened else None


async def list_remote_tools(channel: Any) -> Sequence[RemoteTool]:
    """Return the tools of a ToolService; one without a declared effect is unsafe. Raises HanseiError."""
    stub: Any = tool_service_pb2_grpc.ToolServiceStub(channel)
    reply = await stub.ListTools(tool_service_pb2.ListToolsRequest())
    return [RemoteTool(tool, stub) for tool in reply.tools]


async def register_remote_tools(peers: Peers, addresses: Sequence[str], registry: ToolRegistry) -> None:
    """Register the tools of each service once it responds. Return when all have responded."""
    async with asyncio.TaskGroup() as group:
        for address in addresses:
            group.create_task(_register(peers.get_channel(address), address, registry))


async def _register(channel: Any, address: str, registry: ToolRegistry) -> None:
    def log_failure(attempt: int, pause: float, error: BaseException) -> None:
        _log.warning("tool service does not respond; trying again", address=address, error=shorten(str(error)))

    tools, _ = await _DISCOVERY.run(
        partial(list_remote_tools, channel),
        lambda error: isinstance(error, HanseiError),
        before_pause=log_failure,
    )
    for tool in tools:
        registry.add(tool)
        _log.info("tool is served by a tool service", tool=tool.name, address=address)


def _encode_input(call: ToolInput) -> tool_pb2.ToolInput:
    message = tool_pb2.ToolInput(query=call.query, collection=call.collection or "", prefix=call.prefix)
    for hit in call.sources:
        message.sources.add(id=hit.id, content=hit.content, source=hit.source, score=hit.score)
    for label, text in call.context:
        message.context.add(label=label, text=text)
    return message


def _decode_output(output: tool_pb2.ToolOutput) -> ToolResult:
    """Return the output of a remote tool, validated. Raises ValidationError or ValueError, which fail the call."""
    hits = tuple(
        Hit(id=hit.id, content=hit.content, source=hit.source, score=clamp01(hit.score)) for hit in output.hits
    )
    text = output.text if output.HasField("text") else None
    return ToolResult(
        success=output.success,
        output=hits or text,
        confidence_factors=dict(output.confidence_factors),
        error=output.error or None,
        token_usage=max(0, output.token_usage),
        cost_micro_usd=max(0, output.cost_micro_usd),
    )
