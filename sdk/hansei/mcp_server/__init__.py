"""hansei as an MCP server: search a playbook, read it, learn from a run, vote. `hansei mcp` starts it.

Needs the extra `mcp`. `server(client)` gives the server itself, to serve it in a process of your own.
"""

from __future__ import annotations

from hansei.mcp_server.server import server

__all__ = ["server"]
