"""Tools of others: any service that speaks `hansei.planner.v1.ToolService`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from chassis.channels import Peers
from chassis.errors import HanseiError
from chassis.logging import get_logger
from hansei.planner.v1 import tool_pb2, tool_service_pb2, tool_service_pb2_grpc
from services.planner.domain.events import Effect
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.usecases.tools import ToolRegistry

_log = get_logger(__name__)

_RETRY_SECONDS = 5.0
_EFFECTS = {
    tool_pb2.EFFECT_PURE: Effect.PURE,
    tool_pb2.EFFECT_KEYED: Effect.KEYED,
    tool_pb2.EFFECT_RECONCILABLE: Effect.RECONCILABLE,
}


class RemoteTool:
    """One tool of a ToolService."""

    def __init__(self, name: str, effect: Effect, stub: tool_service_pb2_grpc.ToolServiceAsyncStub) -> None:
        self.name = name
        self.effect = effect
        self._stub = stub

    async def run(self, given: ToolInput) -> ToolResult:
        """Calls it with the step's time as deadline; cancelling this cancels the call there. Raises `HanseiError`."""
        request = tool_service_pb2.CallToolRequest(
            name=self.name, input=_input_to(given), idempotency_key=given.key or "-"
        )
        reply = await self._stub.CallTool(request, timeout=given.seconds)
        return _output_from(reply.output)

    async def find_outcome(self, key: str) -> ToolResult | None:
        """What the call with this key gave; None if it did not happen. Raises `HanseiError`."""
        request = tool_service_pb2.FindOutcomeRequest(name=self.name, idempotency_key=key)
        reply = await self._stub.FindOutcome(request)
        return _output_from(reply.output) if reply.happened else None


async def remote_tools(channel: Any) -> Sequence[RemoteTool]:
    """The tools a ToolService offers; one that does not say its effect is unsafe. Raises `HanseiError`."""
    stub: Any = tool_service_pb2_grpc.ToolServiceStub(channel)
    reply = await stub.ListTools(tool_service_pb2.ListToolsRequest())
    return [RemoteTool(tool.name, _EFFECTS.get(tool.effect, Effect.UNSAFE), stub) for tool in reply.tools]


async def keep_discovering(peers: Peers, addresses: Sequence[str], registry: ToolRegistry) -> None:
    """Enables the tools behind these addresses as soon as each answers. Runs until it is cancelled."""
    missing = list(addresses)
    while True:
        for address in list(missing):
            try:
                for tool in await remote_tools(peers.channel(address)):
                    registry.add(tool)
                    _log.info("tool is served", tool=tool.name, address=address)
                missing.remove(address)
            except HanseiError as error:
                _log.warning("tool service does not answer; trying again", address=address, error=error.message)
        await asyncio.sleep(_RETRY_SECONDS)


def _input_to(given: ToolInput) -> tool_pb2.ToolInput:
    message = tool_pb2.ToolInput(query=given.query, collection=given.collection or "", prefix=given.prefix)
    for hit in given.sources:
        message.sources.add(id=hit.id, content=hit.content, source=hit.source, score=hit.score)
    for label, text in given.context:
        message.context.add(label=label, text=text)
    return message


def _output_from(output: tool_pb2.ToolOutput) -> ToolResult:
    """A foreign output, checked; a ValidationError or ValueError of it is the call's failure."""
    hits = tuple(
        Hit(id=hit.id, content=hit.content, source=hit.source, score=min(1.0, max(0.0, hit.score)))
        for hit in output.hits
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
