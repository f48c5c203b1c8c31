"""Tools of MCP servers, by the official client. What a server says of its tools decides how they may be repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from chassis.errors import shortened
from chassis.logging import get_logger
from services.planner.domain.events import Effect
from services.planner.domain.results import ToolResult, failed_call
from services.planner.domain.tools import ToolInput
from services.planner.usecases.tools import ToolRegistry

_log = get_logger(__name__)

_RETRY_SECONDS = 5.0
_PING_SECONDS = 30.0

Place = str | Sequence[str]
"""A URL of a server that speaks streamable HTTP, or the command line of one that speaks stdio."""


class McpTool:
    """One tool of an MCP server. MCP has no idempotency keys, so only what is read-only or repeatable is repeated."""

    def __init__(self, name: str, description: Any, client: Client) -> None:
        self.name = name
        self._tool = description.name
        self._client = client
        self._schema: dict[str, Any] = description.input_schema or {}
        self.effect = _effect(description.annotations)

    async def run(self, given: ToolInput) -> ToolResult:
        """Calls it; a tool of one text gets the query, any other the query read as a JSON object of its arguments."""
        reply = await self._client.call_tool(self._tool, self._arguments(given), read_timeout_seconds=given.seconds)
        texts = [part.text for part in reply.content if isinstance(part, TextContent)]
        text = "\n".join(texts) or json.dumps(reply.structured_content or {}, ensure_ascii=False)
        if reply.is_error:
            return failed_call(shortened(text, 500))
        return ToolResult(success=True, output=text)

    def _arguments(self, given: ToolInput) -> dict[str, Any]:
        """Errors: ValueError if the query cannot be the tool's arguments."""
        properties: Mapping[str, Any] = self._schema.get("properties", {})
        required = self._schema.get("required", [])
        texts = [name for name, shape in properties.items() if shape.get("type") == "string"]
        wanted = required or texts[:1]
        if len(wanted) == 1 and wanted[0] in texts:
            return {wanted[0]: given.query}
        if not required and not properties:
            return {}
        found = json.loads(given.query)
        if not isinstance(found, dict):
            raise ValueError(f"{self._tool} needs a JSON object with {', '.join(required)}")
        return found


def _effect(annotations: Any) -> Effect:
    """What a call may leave behind, by the server's own hints; without any it is taken to be unsafe."""
    if annotations is None:
        return Effect.UNSAFE
    if annotations.read_only_hint:
        return Effect.PURE
    # Repeating a call with the same arguments changes nothing more, which is what a key is for.
    return Effect.KEYED if annotations.idempotent_hint else Effect.UNSAFE


async def keep_connected(servers: Mapping[str, Place], registry: ToolRegistry) -> None:
    """Keeps a session with each server and its tools enabled. Runs until it is cancelled.

    A tool named like an action (`web_search`) performs that action; any other is enabled as `<server>.<tool>`.
    """
    async with asyncio.TaskGroup() as group:
        for name, place in servers.items():
            group.create_task(_keep(name, place, registry))
        await asyncio.Event().wait()


async def _keep(name: str, place: Place, registry: ToolRegistry) -> None:
    while True:
        try:
            await _session(name, place, registry)
        except Exception as error:  # a server that is not there, or goes away, comes back later
            _log.warning(
                "MCP server failed; connecting again", server=name, error=shortened(str(error) or type(error).__name__)
            )
        await asyncio.sleep(_RETRY_SECONDS)


async def _session(name: str, place: Place, registry: ToolRegistry) -> None:
    target = place if isinstance(place, str) else StdioServerParameters(command=place[0], args=list(place[1:]))
    async with Client(target) as client:
        for tool in mcp_tools(name, (await client.list_tools()).tools, client):
            registry.add(tool)
            _log.info("tool is served by an MCP server", tool=tool.name, server=name)
        while True:
            await asyncio.sleep(_PING_SECONDS)
            await client.send_ping()


def mcp_tools(server: str, descriptions: Sequence[Any], client: Client) -> list[McpTool]:
    """The tools of a server under the names they are enabled as."""
    own = {"web_search", "code_execute"}
    return [McpTool(d.name if d.name in own else f"{server}.{d.name}", d, client) for d in descriptions]
