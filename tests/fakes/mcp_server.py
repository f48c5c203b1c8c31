"""A process that is an MCP server with two tools: ``python -m tests.fakes.mcp_server [PORT]``; stdio without a port."""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("facts")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def web_search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


@server.tool()
def code_execute(code: str) -> str:
    """Takes code and refuses it."""
    raise ValueError("no code today")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
