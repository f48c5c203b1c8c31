"""A server that receives the messages of webhooks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.fakes.http_wire import WireRequest, WireResponse, read_request, send

SECONDS = 30.0


@dataclass
class Receiver:
    """The server of a receiver. It responds with these statuses; the last one repeats."""

    statuses: list[int]
    requests: asyncio.Queue[WireRequest] = field(default_factory=asyncio.Queue)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            await send(reader, writer, WireResponse(status, b"a body that nobody reads"))
            self.requests.put_nowait(request)
        writer.close()

    async def next(self) -> WireRequest:
        return await asyncio.wait_for(self.requests.get(), SECONDS)


@asynccontextmanager
async def receive(*statuses: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Yield a receiver on a free port."""
    receiver = Receiver(list(statuses))
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
