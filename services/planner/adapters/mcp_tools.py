"""Tools of MCP servers, called through the official client. The annotations of a tool decide how calls are repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import TextContent
from mcp.types import Tool as MCPToolDescription

from chassis.errors import shorten
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from services.planner.domain.events import Effect
from services.planner.domain.results import ToolResult, build_failed_result
from services.planner.domain.tools import ToolInput
from services.planner.usecases.tools import ToolRegistry

_log = get_logger(__name__)

_RECONNECT = RetryPolicy(attempts=None, first_pause=1.0, longest_pause=10.0)
_PING_SECONDS = 30.0

ServerTarget = str | Sequence[str]
"""The URL of a server that speaks streamable HTTP, or the command line of one that speaks stdio."""


class McpTool:
    """One tool of an MCP server.

    MCP has no idempotency keys, so only calls of read-only or idempotent tools are repeated.
    """

    def __init__(self, name: str, description: Any, client: Client) -> None:
        self.name = name
        self._tool = description.name
        self._client = client
        self._schema: dict[str, Any] = description.input_schema or {}
        self.effect = _classify_effect(description.annotations)
        self.description = f"{description.description or self._tool} query: {self._describe_input()}"

    async def run(self, call: ToolInput) -> ToolResult:
        """Call the tool; one with a single text parameter gets the query, any other the query parsed as JSON object."""
        reply = await self._client.call_tool(
            self._tool, self.build_arguments(call.query), read_timeout_seconds=call.seconds
        )
        texts = [part.text for part in reply.content if isinstance(part, TextContent)]
        text = "\n".join(texts) or json.dumps(reply.structured_content or {}, ensure_ascii=False)
        if reply.is_error:
            return build_failed_result(shorten(text, 500))
        return ToolResult(success=True, output=text)

    def build_arguments(self, query: str) -> dict[str, Any]:
        """Return the arguments of a call. Raises ValueError if the query cannot be parsed as such."""
        if (name := self._find_text_parameter()) is not None:
            return {name: query}
        if not self._schema.get("properties"):
            return {}
        arguments = json.loads(query)
        if not isinstance(arguments, dict):
            raise ValueError(f"{self._tool} needs a JSON object with {', '.join(self._schema.get('required', []))}")
        return arguments

    def _find_text_parameter(self) -> str | None:
        """Return the parameter that the query is the value of; None if the query contains all arguments."""
        properties: Mapping[str, Any] = self._schema.get("properties", {})
        texts = [name for name, shape in properties.items() if shape.get("type") == "string"]
        expected = self._schema.get("required", []) or texts[:1]
        return expected[0] if len(expected) == 1 and expected[0] in texts else None

    def _describe_input(self) -> str:
        """Return the text parameter, or the schema of the JSON object, that a query must contain."""
        properties = self._schema.get("properties", {})
        if (name := self._find_text_parameter()) is not None:
            return str(properties[name].get("description") or name)
        schema = {"properties": properties, "required": self._schema.get("required", [])}
        return f"the text of a JSON object {json.dumps(schema, ensure_ascii=False)}"


def _classify_effect(annotations: Any) -> Effect:
    """Return the effect of a call by the hints of the server; a tool without hints is unsafe."""
    if annotations is None:
        return Effect.UNSAFE
    if annotations.read_only_hint:
        return Effect.PURE
    # Repeating an idempotent call with the same arguments has no further effect, as with an idempotency key.
    return Effect.KEYED if annotations.idempotent_hint else Effect.UNSAFE


async def connect_mcp_servers(servers: Mapping[str, ServerTarget], registry: ToolRegistry) -> None:
    """Keep a session with each server and its tools registered. Run until cancelled.

    A tool named like an action (`web_search`) performs that action; any other is registered as `<server>.<tool>`.
    """
    async with asyncio.TaskGroup() as group:
        for name, target in servers.items():
            group.create_task(_connect_forever(name, target, registry))


async def _connect_forever(name: str, target: ServerTarget, registry: ToolRegistry) -> None:
    def log_failure(attempt: int, pause: float, error: BaseException) -> None:
        message = shorten(str(error) or type(error).__name__)
        _log.warning("MCP server failed; connecting again", server=name, error=message)

    await _RECONNECT.run(
        partial(_run_session, name, target, registry),
        lambda error: isinstance(error, Exception),
        before_pause=log_failure,
    )


async def _run_session(name: str, target: ServerTarget, registry: ToolRegistry) -> None:
    server = target if isinstance(target, str) else StdioServerParameters(command=target[0], args=list(target[1:]))
    async with Client(server) as client:
        for tool in connect_mcp_tools(name, await list_mcp_tools(client), client):
            registry.add(tool)
            _log.info("tool is served by an MCP server", tool=tool.name, server=name)
        while True:
            await asyncio.sleep(_PING_SECONDS)
            await client.send_ping()


async def list_mcp_tools(client: Client) -> list[MCPToolDescription]:
    """Return the descriptions of all tools of a server, from all pages."""
    page = await client.list_tools()
    descriptions = [*page.tools]
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        descriptions += page.tools
    return descriptions


def connect_mcp_tools(server: str, descriptions: Sequence[Any], client: Client) -> list[McpTool]:
    """Return the tools of a server under the names they are registered as."""
    actions = {"web_search", "code_execute"}
    return [McpTool(d.name if d.name in actions else f"{server}.{d.name}", d, client) for d in descriptions]
