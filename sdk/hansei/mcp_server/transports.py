"""Serve the MCP server over streamable HTTP."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from chassis.settings import BadSetting

MAX_BODY_BYTES = 15 * 1024 * 1024
"""The size of a request: that of the largest trajectory in the contract."""
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


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
    host, port = _split_address(address)
    if public_url:
        allowed_hosts = [*allowed_hosts, _read_host(public_url)]
    if not _is_loopback(host):
        _require_protection(host, public_url, allowed_hosts, authenticates=authenticates)
    with _listen(host, port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        url = f"http://{url_host}:{listener.getsockname()[1]}/mcp"
        app = _create_app(create(public_url or url), host, allowed_hosts)
        announce(url)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


def _require_protection(host: str, public_url: str, allowed_hosts: Sequence[str], *, authenticates: bool) -> None:
    """Raise BadSetting if strangers could use an address, or read the tokens that are sent to it."""
    if authenticates and not public_url.startswith("https://"):
        raise BadSetting(
            f"{host} can be reached by others, who could read the tokens of callers\n"
            "Put a proxy with TLS in front of it, and name its address with --url https://…"
        )
    if not authenticates and not allowed_hosts:
        raise BadSetting(
            f"{host} can be reached by others, and this server does not authenticate its callers\n"
            "Let it verify tokens with --issuer, or name its host names with --allow-host and put a proxy that "
            "authenticates callers in front of it."
        )


def _create_app(server: MCPServer[Any], host: str, allowed_hosts: Sequence[str]) -> Starlette:
    names = [*(f"{name}:*" for name in (*_LOOPBACK_HOSTS, *allowed_hosts)), *allowed_hosts]
    return server.streamable_http_app(
        host=host,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(
            allowed_hosts=names,
            allowed_origins=[f"{scheme}://{name}" for name in names for scheme in ("http", "https")],
        ),
    )


def _read_host(url: str) -> str:
    """Return the host and port of a URL. Raises BadSetting."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadSetting(f"{url!r} is not a URL: it must be https://host/path, such as https://memory.example.com/mcp")
    return parts.netloc


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
