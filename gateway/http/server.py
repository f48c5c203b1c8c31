"""The HTTP server of the gateway's process: uvicorn on the process's loop, within the life of the service."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from chassis.logging import get_logger
from chassis.server.progress import CallsInProgress
from chassis.settings import BadSetting

log = get_logger("hansei.gateway.http")


class _Server(uvicorn.Server):
    """Leaves the signals to the chassis."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves an application from `start` to `close`; requests in progress get `grace_seconds` to finish.

    Endless ones, counted by `progress`, end at once. `variable` is the setting that an unusable address is blamed on.
    With a `context` it is HTTPS.
    """

    def __init__(
        self,
        app: ASGIApp,
        address: str,
        grace_seconds: float,
        progress: CallsInProgress,
        variable: str,
        context: ssl.SSLContext | None = None,
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
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
        # Loading would make a context from files, once; this one takes renewed certificates.
        config.load()
        config.ssl = context
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None
        self.address = ""

    async def start(self) -> None:
        """Take the address and answer on it. Raises BadSetting if it cannot be had."""
        listening = _listening(self._address, self._variable)
        self.address = f"{self._address.rpartition(':')[0]}:{listening.getsockname()[1]}"
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))
        log.info("serving http", address=self.address)

    async def watch(self) -> None:
        """Run as long as the server does; raises if it ends by itself."""
        if self._serving is not None:
            await asyncio.shield(self._serving)
            if not self._server.should_exit:
                raise RuntimeError("the HTTP server ended")

    async def close(self) -> None:
        """Take no more requests, finish those in progress."""
        self._progress.end_endless()
        self._server.should_exit = True
        if self._serving is not None:
            try:
                await self._serving
            except Exception:
                # Whatever it is, the rest of the process closes too.
                log.exception("the HTTP server did not end in order")


def _listening(address: str, variable: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in name else socket.AF_INET
        return socket.create_server((name, int(port)), family=family, backlog=2048)
    except (OSError, ValueError, OverflowError) as error:
        raise BadSetting(f"{variable}: cannot listen on {address!r}: {error}") from error
