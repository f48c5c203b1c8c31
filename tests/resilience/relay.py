"""A relay between two processes: it passes bytes on, late, or not at all.

As a program, `python -m tests.resilience.relay FD TARGET`, it takes connections from a listening socket that it was
handed, and so leads from the network of who made that socket into the one it runs in itself.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK = 65_536


class Relay:
    """Takes connections at `address` and passes them on to `target`.

    While `whole` is not set nothing passes, in either direction, and nobody is told: connections stand, as when a peer
    hangs or packets are dropped. Each chunk takes `delay_seconds`.
    """

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._connections: set[asyncio.Task[None]] = set()
        self.address = ""
        self.delay_seconds = 0.0
        self.whole = asyncio.Event()
        self.whole.set()

    async def serve(self, listening: socket.socket | None = None) -> asyncio.Server:
        """Begin to take connections, on a free port unless a socket is given."""
        server = await asyncio.start_server(
            self._take_connection, sock=listening or socket.create_server(("127.0.0.1", 0))
        )
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def end(self) -> None:
        """Break all connections."""
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _take_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        writers = [writer]
        try:
            await self.whole.wait()
            onward_reader, onward_writer = await asyncio.open_connection(self._host, self._port)
            writers.append(onward_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_bytes(reader, onward_writer))
                both.create_task(self._pass_bytes(onward_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass  # when one side closes, close the other
        finally:
            for writer in writers:
                writer.close()
            self._connections.discard(task)

    async def _pass_bytes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await self.whole.wait()
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[Relay]:
    """Run a relay during the block."""
    made = Relay(target)
    server = await made.serve()
    try:
        yield made
    finally:
        server.close()
        await made.end()


async def main() -> None:
    """Pass on until the process is ended."""
    listening, target = sys.argv[1:]
    server = await Relay(target).serve(socket.socket(fileno=int(listening)))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
