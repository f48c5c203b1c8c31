"""Faults of the network between gateway and services: a silent peer, a lost connection, a slow one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.resilience.load import CALLERS, check_ledger, load, wait_for_recovery
from tests.resilience.relay import Relay, relay
from tests.support import systems

CALL_SECONDS = 2.0
DELAY_SECONDS = 0.1

pytestmark = pytest.mark.parametrize("system", ["one process"], indirect=True)


@pytest.fixture
async def line(system: systems.System) -> AsyncIterator[Relay]:
    async with relay(system.address) as made:
        yield made


@pytest.fixture
async def gateway(system: systems.System, line: Relay, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the address of a gateway that reaches every service over `line`."""
    peers = {f"{name.upper()}_ADDR": line.address for name in systems.SERVICES if name != "gateway"}
    async with AsyncExitStack() as stack:
        made = systems.one_service(tmp_path, "gateway", **peers)
        served = await asyncio.to_thread(made.__enter__)
        stack.push_async_callback(asyncio.to_thread, made.__exit__, None, None, None)
        yield served.address


async def test_a_network_cut_between_two_services_is_recovered_from(
    gateway: str, system: systems.System, line: Relay
) -> None:
    """Bytes are dropped silently; the calls end at their own deadlines."""
    async with load(gateway, call_seconds=CALL_SECONDS) as callers:
        line.whole.clear()
        await refusals(callers.ledger.refused, CALLERS)
        line.whole.set()
        seconds = await wait_for_recovery(callers)
    assert {refusal.split()[0] for refusal in callers.ledger.refused} <= {"DEADLINE_EXCEEDED", "UNAVAILABLE"}
    check_ledger("network cut between the gateway and the services", system.address, callers.ledger, seconds)


async def test_a_peer_that_accepts_connections_and_never_responds_times_out(
    gateway: str, system: systems.System, line: Relay
) -> None:
    """Its process hangs; it is ended, and another one takes its place."""
    async with load(gateway, call_seconds=CALL_SECONDS) as callers:
        await line.end()  # connections are opened again, to a server that never responds
        line.whole.clear()
        began = time.monotonic()
        await refusals(callers.ledger.refused, CALLERS)
        assert time.monotonic() - began < 60, "calls end with their deadlines"
        line.whole.set()
        seconds = await wait_for_recovery(callers)
    check_ledger("a peer that accepts connections and never responds", system.address, callers.ledger, seconds)


async def test_a_slow_connection_fails_no_call(gateway: str, system: systems.System, line: Relay) -> None:
    async with load(gateway) as callers:
        line.delay_seconds = DELAY_SECONDS
        seconds = await wait_for_recovery(callers)
    assert not callers.ledger.refused
    check_ledger(f"{DELAY_SECONDS:g} s of delay in each direction", system.address, callers.ledger, seconds)


async def refusals(refused: dict[str, int], count: int) -> None:
    """Wait until this number of calls was refused."""
    async with asyncio.timeout(60):
        while sum(refused.values()) < count:  # noqa: ASYNC110  the callers do not know us
            await asyncio.sleep(0.05)
