"""The HTTP server of the gateway: uvicorn on the event loop of the process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from chassis.logging import get_logger
from chassis.server.lifecycle import choose_reachable_address
from chassis.server.progress import CallsInProgress
from chassis.settings import BadSetting
from gateway.http.problems import build_headers_too_large

log = get_logger("hansei.gateway.http")


HEADER_SECONDS = 10.0
"""Seconds in which a new connection must send a whole request line and its headers."""

MAX_HEADER_BYTES = 64 * 1024
"""Bytes that the request line and headers of a request may have, and the trailers of its body."""


class _BoundedRequests(HttpToolsProtocol):
    """The protocol of uvicorn; closes a connection whose first request does not arrive in time, or has large headers.

    uvicorn itself closes only connections that are idle after a request, and its parser keeps headers of any size.
    Bodies have limits in the application.
    """

    def __init__(self, *arguments: Any, header_seconds: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_seconds = header_seconds
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expiry = self.loop.call_later(self._header_seconds, self._close_without_request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expiry.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        while data and not self.transport.is_closing():
            allowed = MAX_HEADER_BYTES - self._header_bytes
            part, data = data[:allowed], data[allowed:]
            self._header_bytes += len(part)
            super().data_received(part)
            if self._header_bytes == MAX_HEADER_BYTES:
                self._refuse_headers()
        if self.cycle is not None:
            self._expiry.cancel()

    def on_headers_complete(self) -> None:
        self._header_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._header_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        # Until here, the bytes after the last part of the body were its trailers.
        self._header_bytes = 0
        super().on_message_complete()

    def _refuse_headers(self) -> None:
        log.info("closing a connection with large headers", limit_bytes=MAX_HEADER_BYTES)
        if self.cycle is None or self.cycle.response_complete:
            response = build_headers_too_large(MAX_HEADER_BYTES)
            headers = [*response.raw_headers, (b"connection", b"close")]
            lines = [b"HTTP/1.1 431 Request Header Fields Too Large", *(b"%b: %b" % header for header in headers)]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()

    def _close_without_request(self) -> None:
        if self.cycle is None:
            log.info("closing a connection without a request", seconds=self._header_seconds)
            self.transport.close()


class _Server(uvicorn.Server):
    """A server without signal handlers, which the chassis has."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serve an application from `start` to `close`; requests in progress get `grace_seconds` to finish.

    Endless streams of `progress` end at once. `variable` is the name of the setting with the address. With a `context`
    the server speaks HTTPS. A connection whose first request has not arrived after `header_seconds` is closed.
    """

    def __init__(
        self,
        app: ASGIApp,
        address: str,
        grace_seconds: float,
        progress: CallsInProgress,
        variable: str,
        context: ssl.SSLContext | None = None,
        *,
        header_seconds: float = HEADER_SECONDS,
    ) -> None:
        self._address = address
        self._progress = progress
        self._variable = variable
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            ws="none",
            http=partial(_BoundedRequests, header_seconds=header_seconds),  # type: ignore[arg-type]
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
        # uvicorn would load files into its own context, which would not get renewed certificates.
        config.load()
        config.ssl = context
        self._server = _Server(config)
        self._server_task: asyncio.Task[None] | None = None
        self.address = ""

    @property
    def url(self) -> str:
        """Return the URL at which this machine reaches the server; empty before the start."""
        scheme = "https" if self._server.config.ssl else "http"
        return f"{scheme}://{choose_reachable_address(self.address)}" if self.address else ""

    async def start(self) -> None:
        """Bind the address and serve. Raises BadSetting if the address is unavailable."""
        listener = _listen(self._address, self._variable)
        self.address = f"{self._address.rpartition(':')[0]}:{listener.getsockname()[1]}"
        self._server_task = asyncio.create_task(self._server.serve(sockets=[listener]))
        log.info("http server started", address=self.address)

    async def watch(self) -> None:
        """Run until the server ends. Raises RuntimeError if it ends by itself."""
        if self._server_task is not None:
            await asyncio.shield(self._server_task)
            if not self._server.should_exit:
                raise RuntimeError("the HTTP server ended")

    async def close(self) -> None:
        """Accept no more requests, and finish those in progress."""
        self._progress.end_endless()
        self._server.should_exit = True
        if self._server_task is not None:
            try:
                await self._server_task
            except Exception:
                # The rest of the process must still close.
                log.exception("http server failed to close")


def _listen(address: str, variable: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in name else socket.AF_INET
        return socket.create_server((name, int(port)), family=family, backlog=2048)
    except (OSError, ValueError, OverflowError) as error:
        raise BadSetting(f"{variable}: cannot listen on {address!r}: {error}") from error
