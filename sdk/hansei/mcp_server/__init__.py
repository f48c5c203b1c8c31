"""hansei as an MCP server, which `hansei mcp` starts.

`create_server(client)` returns the server, to serve it in a process of your own.
"""

from __future__ import annotations

from hansei.mcp_server.server import create_server

__all__ = ["create_server"]
