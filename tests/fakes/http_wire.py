"""Just enough HTTP/1.1 over asyncio to answer a client, and to break the connection in every way a server can."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request as it came in; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class WireResponse:
    """A response to send, and how to close the connection.

    `body` is sent whole with a Content-Length, `chunks` (if any) one by one with chunked encoding.
    """

    status: int = 200
    body: bytes = b""
    chunks: tuple[bytes, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    reset: bool = False
    """Send nothing and reset the connection (RST)."""
    stall: bool = False
    """Send nothing and keep the connection open until the client or the server closes it."""
    cut_after: int | None = None
    """Send this number of bytes of the body, or of chunks, then close."""


async def read_request(reader: asyncio.StreamReader) -> WireRequest | None:
    """The next request of a connection; None when the client has closed it, or when it speaks HTTP/2.

    A gRPC client of another test, whose server had this port before, connects again until it is closed.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    if head.startswith(b"PRI * HTTP/2.0"):
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return WireRequest(method, path, headers, await _read_chunks(reader))
    length = int(headers.get("content-length", "0"))
    if length > MAX_BODY_BYTES:
        raise ValueError(f"a body of {length} bytes is larger than {MAX_BODY_BYTES}")
    return WireRequest(method, path, headers, await reader.readexactly(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(body) + size > MAX_BODY_BYTES:
            raise ValueError(f"a chunked body is larger than {MAX_BODY_BYTES} bytes")
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return bytes(body)


async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, response: WireResponse) -> bool:
    """Send `response`; return whether the connection may take another request."""
    if response.reset:
        _abort_connection(writer)
        return False
    if response.stall:
        await reader.read()
        return False
    if response.chunks:
        await _send_chunks(writer, response)
    else:
        writer.write(_head(response, f"Content-Length: {len(response.body)}") + response.body[: response.cut_after])
    await writer.drain()
    return response.cut_after is None


async def _send_chunks(writer: asyncio.StreamWriter, response: WireResponse) -> None:
    writer.write(_head(response, "Transfer-Encoding: chunked"))
    for chunk in response.chunks[: response.cut_after]:
        writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await writer.drain()
    if response.cut_after is None:
        writer.write(b"0\r\n\r\n")


def _head(response: WireResponse, framing: str) -> bytes:
    headers = {"Content-Type": "application/json", **response.headers}
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}", framing]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _abort_connection(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN: lingering for 0 seconds drops unsent data (SO_LINGER)."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
