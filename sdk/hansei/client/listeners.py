"""Sockets and request checks of servers that run beside a client: `hansei mcp --http` and `hansei a2a`."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from chassis.settings import BadSetting

STOP_SECONDS = 5
"""Seconds for requests in progress to finish after a signal."""
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


def require_protection(
    host: str, public_url: str, allowed_hosts: Sequence[str], *, authenticates: bool, token_option: str
) -> None:
    """Raise BadSetting if strangers could use an address, or read the tokens that are sent to it.

    `token_option` is the option with which the server authenticates its callers.
    """
    if is_loopback(host):
        return
    if authenticates and not public_url.startswith("https://"):
        raise BadSetting(
            f"{host} can be reached from other hosts, which could read the tokens of callers\n"
            "Put a proxy with TLS in front of it, and name its address with --url https://…"
        )
    if not authenticates and not allowed_hosts:
        raise BadSetting(
            f"{host} can be reached from other hosts, and this server does not authenticate its callers\n"
            f"Verify tokens with {token_option}, or put a proxy that authenticates callers in front of this server and "
            "name its host names with --allow-host."
        )


def build_transport_security(allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return the check of `Host` and `Origin`: requests must name this machine or an allowed host."""
    names = [*(f"{name}:*" for name in (*_LOOPBACK_HOSTS, *allowed_hosts)), *allowed_hosts]
    return TransportSecuritySettings(
        allowed_hosts=names,
        allowed_origins=[f"{scheme}://{name}" for name in names for scheme in ("http", "https")],
    )


def read_host(url: str) -> str:
    """Return the host and port of a URL. Raises BadSetting."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadSetting(f"{url!r} is not a URL: it must be https://host/path, such as https://memory.example.com/mcp")
    return parts.netloc


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of `host:port`. Raises BadSetting."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadSetting(f"{address!r} is not an address: it must be host:port, such as 127.0.0.1:8765")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free one. Raises BadSetting."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadSetting(f"cannot listen at {host}:{port}: {error.strerror or error}") from error


def format_address(host: str, listener: socket.socket) -> str:
    """Return `host:port` of a listening socket."""
    return f"[{host}]:{listener.getsockname()[1]}" if ":" in host else f"{host}:{listener.getsockname()[1]}"


async def serve_app(app: Starlette, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve an app until SIGTERM or SIGINT, and return, so that callers close what they opened.

    `announce` is called once the app accepts requests.
    """
    server = _AppServer(app, announce)
    try:
        await server.serve(sockets=[listener])
    finally:
        if server.started and not server.should_exit:  # cancelled: it has not closed its sockets
            await server.shutdown(sockets=[listener])


class _AppServer(uvicorn.Server):
    def __init__(self, app: Starlette, announce: Callable[[], None]) -> None:
        super().__init__(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=STOP_SECONDS))
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and announce it."""
        await super().startup(sockets)
        if self.started:
            self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal; do not wait for requests after a second one.

        uvicorn's method would raise the signal again after the stop, which ends the process before its callers close.
        """
        self.force_exit = self.should_exit
        self.should_exit = True
