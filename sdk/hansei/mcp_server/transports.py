"""Serve the MCP server over streamable HTTP."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from chassis.settings import BadSetting

MAX_BODY_BYTES = 15 * 1024 * 1024
"""The size of a request: that of the largest trajectory in the contract."""
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


async def serve_http(
    server: MCPServer[Any], address: str, allowed_hosts: Sequence[str], announce: Callable[[str], None]
) -> None:
    """Serve at `address`, `host:port`, under `/mcp` until a signal; `announce` gets the URL with the chosen port.

    Requests must name this machine or an allowed host in `Host` and `Origin`, so that a page in a browser cannot use
    the server.

    Raises:
        BadSetting: the address is invalid or in use, or other machines can reach it and no host is allowed.
    """
    host, port = _split_address(address)
    if not _is_loopback(host) and not allowed_hosts:
        raise BadSetting(
            f"{host} can be reached by others, and this server does not authenticate its callers\n"
            "Name its host names with --allow-host, and put a proxy that authenticates callers in front of it."
        )
    names = [*(f"{name}:*" for name in (*_LOOPBACK_HOSTS, *allowed_hosts)), *allowed_hosts]
    app = server.streamable_http_app(
        host=host,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(
            allowed_hosts=names,
            allowed_origins=[f"{scheme}://{name}" for name in names for scheme in ("http", "https")],
        ),
    )
    with _listen(host, port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        announce(f"http://{url_host}:{listener.getsockname()[1]}/mcp")
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


def _split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadSetting(f"{address!r} is not an address: it must be host:port, such as 127.0.0.1:8765")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadSetting(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
