"""Serve the MCP server over streamable HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hansei.client.callers import choose_http_status
from hansei.client.errors import HanseiError
from hansei.client.listeners import (
    build_transport_security,
    format_address,
    listen,
    read_host,
    require_protection,
    serve_app,
    split_address,
)

TOKEN_OPTION = "--issuer"  # noqa: S105  the name of an option
MAX_BODY_BYTES = 15 * 1024 * 1024
"""The size of a request: that of the largest trajectory in the contract."""


async def serve_http(
    create: Callable[[str], MCPServer[Any]],
    address: str,
    allowed_hosts: Sequence[str],
    announce: Callable[[str], None],
    *,
    public_url: str = "",
    authenticates: bool = False,
) -> None:
    """Serve at `address`, `host:port`, under `/mcp` until a signal; `announce` gets the URL with the chosen port.

    `create` returns the server for the URL under which clients reach it: `public_url`, or else that of the address.
    Requests must name this machine or an allowed host in `Host` and `Origin`, so that a page in a browser cannot use
    the server. `authenticates`: the server requires tokens.

    Raises:
        BadSetting: the address is invalid or in use, or other machines can reach it and callers are not authenticated.
    """
    host, port = split_address(address)
    if public_url:
        allowed_hosts = [*allowed_hosts, read_host(public_url)]
    require_protection(host, public_url, allowed_hosts, authenticates=authenticates, token_option=TOKEN_OPTION)
    with listen(host, port) as listener:
        url = f"http://{format_address(host, listener)}/mcp"
        app = _create_app(create(public_url or url), host, allowed_hosts)
        await serve_app(app, listener, lambda: announce(url))


def _create_app(server: MCPServer[Any], host: str, allowed_hosts: Sequence[str]) -> Starlette:
    app = server.streamable_http_app(
        host=host,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=build_transport_security(allowed_hosts),
    )
    app.add_middleware(_VerificationErrors)
    return app


class _VerificationErrors:
    """Answers requests whose token the gateway could not verify."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; an error of `verify_token` is raised before a response begins."""
        try:
            await self._app(scope, receive, send)
        except HanseiError as error:
            await JSONResponse({"error": error.message}, choose_http_status(error.code))(scope, receive, send)
