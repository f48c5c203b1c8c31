"""Killed services, an unavailable database, overload: no acknowledged data are lost, and all services recover."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.resilience.load import CALLERS, check_ledger, load, wait_for_recovery
from tests.support import systems
from tests.support.campaigns import campaign_cases, campaign_size
from tests.support.postgres_server import PostgresServer, find_postgres_programs_or_skip, postgres_server

pytestmark = pytest.mark.long

GAP_SECONDS = campaign_size(30.0, 3.0)
"""Duration of the outage of the database; callers hardly notice a short one."""
BURST = 10
SERVICES = ["curator", "reflector", "search", "planner", "validator", "evidence", "gateway"]
KILLS = campaign_cases(SERVICES * 72, short=len(SERVICES))
"""504 kills over all services at the full size."""


@dataclass(frozen=True)
class Hansei:
    """A process a service, on one PostgreSQL."""

    system: systems.System
    postgres: PostgresServer

    @property
    def address(self) -> str:
        return self.system.address


@pytest.fixture(scope="module")
def hansei(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hansei]:
    data = tmp_path_factory.mktemp("faults")
    with postgres_server(find_postgres_programs_or_skip()) as postgres:
        # The limit is low, so that a burst is one on any machine.
        settings = systems.server_databases(postgres) | {"HANSEI_MAX_CONCURRENT_CALLS": str(2 * CALLERS)}
        with systems.separate_processes(data, **settings) as system:
            yield Hansei(system, postgres)


@pytest.mark.timeout(300 + 20 * len(KILLS))
async def test_kills_of_all_services_lose_nothing_and_double_nothing(hansei: Hansei) -> None:
    """Each kill meets callers that learn, search, and report to the evidence service and its guards."""
    # A dataset a round: in one that grows for hundreds of kills, the callers would mostly wait for its curation.
    for first in range(0, len(KILLS), len(SERVICES)):
        kills = KILLS[first : first + len(SERVICES)]
        async with load(hansei.address, sessions=True, faults=len(kills)) as callers:
            for name in kills:
                hansei.system.kill(name)
                hansei.system.start(name)
                await asyncio.to_thread(hansei.system.wait_until_started, name)
                seconds = await wait_for_recovery(callers)
        check_ledger(
            f"kills {first + 1} to {first + len(kills)} of all services", hansei.address, callers.ledger, seconds
        )


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_that_is_killed_under_load_recovers(hansei: Hansei, name: str) -> None:
    async with load(hansei.address, sessions=True) as callers:
        hansei.system.kill(name)
        hansei.system.start(name)
        await asyncio.to_thread(hansei.system.wait_until_started, name)
        seconds = await wait_for_recovery(callers)
    check_ledger(f"{name} killed", hansei.address, callers.ledger, seconds)
    if name in ("planner", "validator", "evidence"):
        assert not callers.ledger.refused, "nobody who learns or searches needs it"


async def test_services_recover_from_a_database_outage(hansei: Hansei) -> None:
    async with load(hansei.address, sessions=True) as callers:
        await asyncio.to_thread(hansei.postgres.stop)
        before = len(callers.ledger.acknowledged)
        await asyncio.sleep(GAP_SECONDS)
        assert len(callers.ledger.acknowledged) <= before + CALLERS, "only what was on its way is acknowledged"
        await asyncio.to_thread(hansei.postgres.start)
        seconds = await wait_for_recovery(callers)
    check_ledger(f"database away for {GAP_SECONDS:g} s", hansei.address, callers.ledger, seconds)
    assert {name: process.poll() for name, process in hansei.system.processes.items()} == dict.fromkeys(
        hansei.system.processes
    ), "no process ended"


async def test_a_burst_of_ten_times_the_load_is_refused_as_overload(hansei: Hansei) -> None:
    async with load(hansei.address) as callers:
        async with load(hansei.address, BURST * CALLERS) as burst:
            await callers.progress()
        seconds = await wait_for_recovery(callers)
    assert not burst.ledger.refused.keys() - {"RESOURCE_EXHAUSTED OVERLOADED"}
    check_ledger("burst, ten times the load", hansei.address, burst.ledger, seconds)
    check_ledger("the same burst, only the four callers from before it", hansei.address, callers.ledger, seconds)
