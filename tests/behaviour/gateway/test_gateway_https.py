"""HTTP over TLS: with the certificate of the process, renewed without a restart; plaintext only where it is meant."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from chassis import Certificates, ServiceSettings
from chassis.server.progress import CallsInProgress
from gateway.http.server import MAX_HEADER_BYTES, HttpServer
from tests.fakes.authority import Authority
from tests.support.systems import failed_start


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the scheme it was asked by."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
async def port(tmp_path: Path, authority: Authority) -> AsyncIterator[str]:
    files = authority.issue(tmp_path, "localhost")
    settings = ServiceSettings(**{name.removeprefix("HANSEI_").lower(): path for name, path in files.items()})  # type: ignore[arg-type]
    certificates = Certificates.from_settings(settings)
    assert certificates is not None
    server = HttpServer(hello, "127.0.0.1:0", 1, CallsInProgress(), "HANSEI_HTTP_ADDRESS", certificates.for_http())
    await server.start()
    yield server.address.rpartition(":")[2]
    await server.close()


async def fetch_text(port: str, authority: Authority) -> str:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    async with httpx.AsyncClient(verify=context) as client:
        return (await client.get(f"https://localhost:{port}/")).text


async def test_requests_use_tls(port: str, authority: Authority) -> None:
    assert await fetch_text(port, authority) == "https"
    with pytest.raises(httpx.ConnectError):
        await fetch_text(port, Authority())
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"http://localhost:{port}/")


async def test_new_connections_get_the_renewed_certificate(port: str, authority: Authority, tmp_path: Path) -> None:
    assert await fetch_text(port, authority) == "https"
    next_authority = Authority("the next authority")
    next_authority.issue(tmp_path, "localhost", valid=timedelta(hours=1))
    assert await fetch_text(port, next_authority) == "https"
    with pytest.raises(httpx.ConnectError):
        await fetch_text(port, authority)


def test_plaintext_beyond_this_machine_needs_the_setting(tmp_path: Path) -> None:
    status, complaint = failed_start(tmp_path, "gateway", HANSEI_HTTP_ADDRESS="0.0.0.0:0", GATEWAY_API_TOKEN="x")
    assert status == 1
    assert "HANSEI_HTTP_ADDRESS" in complaint
    assert "HANSEI_PLAINTEXT=http" in complaint


async def test_an_unclean_end_of_a_server_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = HttpServer(hello, "127.0.0.1:0", 1, CallsInProgress(), "HANSEI_HTTP_ADDRESS")
    shutdown = uvicorn.Server.shutdown

    async def failing(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        await shutdown(self, sockets)
        raise RuntimeError("on purpose")

    monkeypatch.setattr(uvicorn.Server, "shutdown", failing)
    await server.start()
    await server.close()
    assert "http server failed to close" in capsys.readouterr().err


async def test_the_url_of_a_server_on_all_interfaces_is_one_that_a_browser_opens() -> None:
    server = HttpServer(hello, "0.0.0.0:0", 1, CallsInProgress(), "HANSEI_HTTP_ADDRESS")
    await server.start()
    async with httpx.AsyncClient() as client:
        assert (await client.get(server.url)).status_code == 200
    await server.close()
    assert server.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: slow"])
async def test_a_connection_without_a_whole_request_is_closed(sent: bytes) -> None:
    server = HttpServer(hello, "127.0.0.1:0", 1, CallsInProgress(), "HANSEI_HTTP_ADDRESS", header_seconds=0.05)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
    writer.write(sent)
    assert await asyncio.wait_for(reader.read(), 30) == b""
    writer.close()
    async with httpx.AsyncClient() as client:
        assert (await client.get(server.url)).text == "http"
    await server.close()


@asynccontextmanager
async def connect() -> AsyncIterator[tuple[HttpServer, asyncio.StreamReader, asyncio.StreamWriter]]:
    server = HttpServer(hello, "127.0.0.1:0", 1, CallsInProgress(), "HANSEI_HTTP_ADDRESS")
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
    yield server, reader, writer
    writer.close()
    await server.close()


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nX: %b", b"GET /%b", b"GET / HTTP/1.1\r\n%b: x"])
async def test_large_headers_are_refused_before_they_end(sent: bytes) -> None:
    async with connect() as (_, reader, writer):
        writer.write((sent % (b"a" * MAX_HEADER_BYTES))[:MAX_HEADER_BYTES])
        head, _, body = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert json.loads(body)["reason"] == "HEADERS_TOO_LARGE"
        assert json.loads(body)["detail"] == "the request line and headers may have at most 65536 bytes"


async def test_headers_are_bounded_in_each_request_of_a_connection() -> None:
    async with connect() as (_, reader, writer):
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"a" * (MAX_HEADER_BYTES - 100)))
            assert b"HTTP/1.1 200" in await asyncio.wait_for(reader.readuntil(b"http\r\n0\r\n\r\n"), 30)
        writer.write((b"GET / HTTP/1.1\r\nX: %b" % (b"a" * MAX_HEADER_BYTES))[:MAX_HEADER_BYTES])
        assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 431")


async def test_large_trailers_end_the_connection() -> None:
    async with connect() as (_, reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ")
        await reader.readuntil(b"http")
        writer.write(b"a" * 2 * MAX_HEADER_BYTES)
        with suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 30)
        assert reader.at_eof() or reader.exception()


async def test_a_body_may_be_larger_than_headers() -> None:
    async with connect() as (server, _, _), httpx.AsyncClient() as client:
        assert (await client.post(server.url, content=b"a" * 10 * MAX_HEADER_BYTES)).text == "http"
