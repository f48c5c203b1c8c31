"""Webhooks: how long a receiver can delay the messages to others."""

import asyncio
from contextlib import suppress

import httpx
import pytest

from chassis.retry import RetryPolicy
from services.planner.adapters.webhook import Poster


async def test_a_receiver_that_never_ends_its_response_is_given_up() -> None:
    left = asyncio.Event()

    async def send_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        with suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"x")
                await writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1000), 0.01)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(send_bytes, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    poster = Poster(b"", retries=RetryPolicy(attempts=1), attempt_seconds=0.2)
    async with server, asyncio.timeout(5):
        with pytest.raises(httpx.ReadTimeout, match=r"no response within 0\.2 seconds"):
            await poster.post(httpx.URL(f"http://127.0.0.1:{port}/"), "m1", {})
        await poster.close()
        await left.wait()
