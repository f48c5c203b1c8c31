"""One HTTP request within a time limit. `http.client` takes longer to import than a hook may take to run."""

from __future__ import annotations

import socket
import time

TYPE_CHECKING = False  # As in typing, whose import takes longer than a hook of an agent may take.
if TYPE_CHECKING:
    from typing import Any

_MAX_RESPONSE_BYTES = 4 * 1024 * 1024


class PostFailed(Exception):
    """The gateway did not answer, or refused; the message says why."""


def post_json(url: str, body: bytes, token: str, deadline: float) -> tuple[dict[str, str], bytes]:
    """Return headers, with names in lower case, and body of the response.

    `deadline` is a time of the monotonic clock. Raises PostFailed, also for a status other than 200.
    """
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    host, port = _split_authority(authority, 443 if scheme == "https" else 80)
    lines = [
        f"POST /{path} HTTP/1.0",
        f"Host: {authority}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    request = "\r\n".join([*lines, "", ""]).encode() + body
    try:
        # A name as bytes is not encoded by IDNA, whose tables take a while to load.
        name = host.encode() if host.isascii() else host
        address: tuple[Any, int] = (name, port)
        with socket.create_connection(address, _compute_remaining(deadline)) as connection:
            response = _send_and_receive(
                _encrypt(connection, host) if scheme == "https" else connection, request, deadline
            )
    except (OSError, ValueError) as error:
        raise PostFailed(_describe(error)) from error
    return _parse(response)


def _split_authority(authority: str, default_port: int) -> tuple[str, int]:
    host, separator, port = authority.rpartition(":")
    if not separator or port.endswith("]"):
        return authority.strip("[]"), default_port
    if not port.isdigit():
        raise PostFailed(f"the port {port!r} is not a number")
    return host.strip("[]"), int(port)


def _encrypt(connection: socket.socket, host: str) -> socket.socket:
    import ssl

    return ssl.create_default_context().wrap_socket(connection, server_hostname=host)


def _send_and_receive(connection: socket.socket, request: bytes, deadline: float) -> bytes:
    connection.sendall(request)
    parts: list[bytes] = []
    size = 0
    while size <= _MAX_RESPONSE_BYTES:
        connection.settimeout(_compute_remaining(deadline))
        part = connection.recv(65536)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise ValueError(f"the response has more than {_MAX_RESPONSE_BYTES} bytes")


def _compute_remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    return remaining


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no response in time"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def _parse(response: bytes) -> tuple[dict[str, str], bytes]:
    head, separator, body = response.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    words = status.split(" ", 2)
    if not separator or len(words) < 2:
        raise PostFailed("the response is not HTTP")
    if words[1] != "200":
        raise PostFailed(f"HTTP {' '.join(words[1:])}: {body[:200].decode('utf-8', 'replace')}")
    headers = dict(line.split(":", 1) for line in lines if ":" in line)
    return {name.lower(): value.strip() for name, value in headers.items()}, body
