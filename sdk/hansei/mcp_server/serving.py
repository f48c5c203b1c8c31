"""Serves the MCP server: over stdin and stdout, or over streamable HTTP."""

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
"""What one request may have: a run as large as the contract takes."""
_HERE = ("127.0.0.1", "localhost", "[::1]")


async def over_stdio(made: MCPServer[Any]) -> None:
    """Serve until stdin ends."""
    await made.run_stdio_async()


async def over_http(
    made: MCPServer[Any], address: str, allowed: Sequence[str], announce: Callable[[str], None]
) -> None:
    """Serve at `address`, `host:port`, under `/mcp` until a signal; `announce` is told the URL, with a port of its own
    where the address has port 0.

    Requests must name this machine, or a host of `allowed`, in `Host` and `Origin`: a page in a browser cannot reach
    a server it merely found. Raises BadSetting for an address that others can reach without an allowed host.
    """
    host, port = _parts(address)
    if not _is_loopback(host) and not allowed:
        raise BadSetting(
            f"{host} can be reached by others, and this server asks nobody who they are\n"
            "Name the hosts it is reached by with --allow-host, and put something before it that does."
        )
    names = [*(f"{name}:*" for name in _HERE), *(f"{name}:*" for name in allowed), *allowed]
    app = made.streamable_http_app(
        host=host,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(
            allowed_hosts=names,
            allowed_origins=[f"{scheme}://{name}" for name in names for scheme in ("http", "https")],
        ),
    )
    with _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        announce(f"http://{shown}:{listener.getsockname()[1]}/mcp")
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadSetting(f"{address!r} is no address: it must be host:port, such as 127.0.0.1:8765")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadSetting(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
