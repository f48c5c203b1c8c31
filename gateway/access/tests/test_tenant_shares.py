"""Share a gateway between tenants: a flood of one does not occupy it for the others."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

from chassis.errors import ResourceExhausted
from gateway.access.domain.tenant_shares import (
    ACTIVE_SECONDS,
    LONGEST_LAG_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MAX_WAITING,
    PAUSE_SECONDS,
    TenantShares,
)


class Flood:
    """Calls of one tenant, which end when `ends` is set."""

    def __init__(self, shares: TenantShares, tenant: str) -> None:
        self._shares, self._tenant = shares, tenant
        self.running = self.finished = 0
        self.ends = asyncio.Event()

    async def call(self) -> None:
        async with self._shares.enter(self._tenant):
            self.running += 1
            await self.ends.wait()
        self.finished += 1


async def settle() -> None:
    """Wait until all calls run that may run."""
    for _ in range(10):
        await asyncio.sleep(2 * PAUSE_SECONDS)


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def seconds_ahead() -> list[float]:
    """The seconds by which the clock of `shares` is ahead."""
    return [0.0]


@pytest.fixture
def shares(seconds_ahead: list[float]) -> TenantShares:
    return TenantShares(2, lambda: time.monotonic() + seconds_ahead[0])


async def touch(shares: TenantShares, tenant: str) -> None:
    async with shares.enter(tenant):
        pass


async def test_a_tenant_that_is_alone_has_no_limit(shares: TenantShares) -> None:
    flood = Flood(shares, "a")
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(flood.call())
        await settle()
        assert flood.running == 50
        flood.ends.set()


async def test_a_flood_runs_within_its_share_and_the_other_tenant_at_once(shares: TenantShares) -> None:
    await touch(shares, "b")
    flood = Flood(shares, "a")
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(flood.call())
        await settle()
        assert flood.running == 2
        await asyncio.wait_for(touch(shares, "b"), 1)
        flood.ends.set()
    assert flood.finished == 20


async def test_the_share_falls_while_calls_wait_for_the_processor_and_rises_again() -> None:
    now = lag = 0.0
    running = 0
    counts: list[int] = []

    def seconds() -> float:
        nonlocal now
        now += lag
        return now

    shares = TenantShares(8, seconds)

    async def call() -> None:
        nonlocal running
        async with shares.enter("a"):
            running += 1
            counts.append(running)
            await asyncio.sleep(0.04)
            running -= 1

    for lag, most in ((PAUSE_SECONDS / 4, 8), (2 * LONGEST_LAG_SECONDS, 1), (PAUSE_SECONDS / 4, 8)):  # noqa: B007  read by the clock
        await touch(shares, "b")
        await asyncio.gather(*(call() for _ in range(40)))
        assert max(counts[-8:]) == most


async def test_a_call_beside_other_tenants_starts_after_a_pause_which_arrivals_prolong() -> None:
    now = 0.0
    shares = TenantShares(2, lambda: now)
    await touch(shares, "b")
    flood = Flood(shares, "a")
    tasks = [asyncio.create_task(flood.call()) for _ in range(2)]
    await settle()
    assert flood.running == 1
    now = 0.9 * PAUSE_SECONDS
    tasks.append(asyncio.create_task(flood.call()))
    await asyncio.sleep(0)
    now = 1.1 * PAUSE_SECONDS
    await settle()
    assert flood.running == 1
    now = 2 * PAUSE_SECONDS
    await settle()
    assert flood.running == 2
    await cancel(tasks)


async def test_arrivals_prolong_a_pause_up_to_a_limit() -> None:
    now = 0.0
    shares = TenantShares(2, lambda: now)
    await touch(shares, "b")
    flood = Flood(shares, "a")
    tasks = [asyncio.create_task(flood.call()) for _ in range(2)]
    await settle()
    while now < LONGEST_PAUSE_SECONDS:
        assert flood.running == 1
        now += PAUSE_SECONDS / 2
        tasks.append(asyncio.create_task(flood.call()))
        await asyncio.sleep(0)
    await settle()
    assert flood.running == 2
    await cancel(tasks)


async def test_the_share_ends_when_the_other_tenant_is_gone(shares: TenantShares, seconds_ahead: list[float]) -> None:
    await touch(shares, "b")
    seconds_ahead[0] += ACTIVE_SECONDS + 1
    flood = Flood(shares, "a")
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(flood.call())
        await settle()
        assert flood.running == 20
        flood.ends.set()


async def test_calls_beyond_those_that_may_wait_are_refused(shares: TenantShares) -> None:
    await touch(shares, "b")
    flood = Flood(shares, "a")
    tasks = [asyncio.create_task(flood.call()) for _ in range(2)]
    while flood.running < 2:
        await settle()
    tasks += [asyncio.create_task(flood.call()) for _ in range(MAX_WAITING)]
    await settle()
    with pytest.raises(ResourceExhausted, match="calls of this tenant wait"):
        await flood.call()
    flood.ends.set()
    await asyncio.gather(*tasks)


async def test_calls_that_were_cancelled_while_they_waited_do_not_count_as_waiting(shares: TenantShares) -> None:
    await touch(shares, "b")
    flood = Flood(shares, "a")
    tasks = [asyncio.create_task(flood.call()) for _ in range(2)]
    while flood.running < 2:
        await settle()
    left = [asyncio.create_task(flood.call()) for _ in range(MAX_WAITING)]
    await settle()
    await cancel(left)
    tasks.append(asyncio.create_task(flood.call()))
    await settle()
    flood.ends.set()
    await asyncio.gather(*tasks)
    assert flood.finished == 3


async def test_a_cancelled_call_gives_its_slot_to_the_next_one(shares: TenantShares) -> None:
    await touch(shares, "b")
    flood = Flood(shares, "a")
    tasks = [asyncio.create_task(flood.call()) for _ in range(6)]
    await settle()
    for cancelled in (tasks[3], tasks[0]):
        cancelled.cancel()
    await settle()
    assert flood.running == 3
    flood.ends.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    await touch(shares, "a")
    assert flood.finished == 4


async def test_a_call_within_a_call_needs_no_slot(shares: TenantShares) -> None:
    await touch(shares, "b")
    async with AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(shares.enter("a"))


async def test_without_a_limit_nobody_waits() -> None:
    shares = TenantShares(0, lambda: 0.0)
    await touch(shares, "b")
    flood = Flood(shares, "a")
    tasks = [asyncio.create_task(flood.call()) for _ in range(20)]
    await settle()
    assert flood.running == 20
    flood.ends.set()
    await asyncio.gather(*tasks)
