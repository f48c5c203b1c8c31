"""Real servers on loopback ports, and peers that call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from chassis import Peers, Running, ServiceSettings, serve
from chassis.tests.probe import Probe, policies, service, stub

Serve = Callable[..., Awaitable["ServedProbe"]]
Connect = Callable[..., Any]


@dataclass(frozen=True)
class ServedProbe:
    """A probe that is being served."""

    probe: Probe
    running: Running

    @property
    def address(self) -> str:
        return self.running.address


async def wait_until(condition: Callable[[], bool]) -> None:
    """Give the other side its turns until the condition holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  there is nothing to wait on: the other side does not know us
            await asyncio.sleep(0)


async def collect(responses: AsyncIterator[Any], into: list[Any]) -> None:
    """Append each response, so that a test sees those before an error."""
    async for response in responses:
        into.append(response)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def start_probe(stack: AsyncExitStack) -> Serve:
    """Serve a probe until the test ends: ``await start_probe(probe, max_concurrent_calls=1)``."""

    async def start(probe: Probe | None = None, **settings: Any) -> ServedProbe:
        probe = probe or Probe()
        merged_settings = ServiceSettings(**{"lame_duck_seconds": 0, "drain_grace_seconds": 5} | settings)
        running = await stack.enter_async_context(serve(service(probe), settings=merged_settings))
        return ServedProbe(probe, running)

    return start


@pytest.fixture
async def connect_probe(stack: AsyncExitStack) -> Connect:
    """Return a stub of the probe at an address, for as long as the test runs."""

    def connect(
        address: str, *, timeout: float | None = 30, retry: bool = True, longest: float | None = None, **more: Any
    ) -> Any:
        chosen = policies(timeout=timeout, retry=retry, longest=longest)
        peers = Peers({"probe": address}, policies=chosen, **more)
        stack.push_async_callback(peers.close)
        return stub(peers)

    return connect
