"""Each service on a host of its own, as the manifests give it; packets between hosts are dropped, lost, or late.

The kernel drops them (nft in network namespaces), as a broken switch does: connections stand and nobody is told. An
Envoy between the gateway and the reflector makes calls wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from chassis.errors import DeadlineExceeded, Unavailable
from tests.deploy.cluster import Cluster, cluster
from tests.deploy.rendered import OVERLAYS, rendered
from tests.resilience.envoy import Envoy, envoy
from tests.resilience.load import CALLERS, Load, load, recovered, settled
from tests.resilience.namespaces import Network, network
from tests.support.postgres_server import binaries_or_skip, postgres_server
from tests.support.systems import SERVICES

POSTGRES_PORT = 5432
CALL_SECONDS = 2.0
FOUND_SECONDS = 30.0
LOST_PERCENT = 10
DELAY_SECONDS = 0.3
TOO_LONG_SECONDS = 5.0


@dataclass(frozen=True)
class Apart:
    """A running overlay `dev`, and the network it is on."""

    network: Network
    cluster: Cluster
    envoy: Envoy

    @property
    def address(self) -> str:
        """`host:port` that leads to the gateway."""
        return self.cluster.address("gateway", SERVICES["gateway"]["listen"])


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    programs, manifests = binaries_or_skip(), rendered(OVERLAYS / "dev")
    port = SERVICES["reflector"]["listen"]
    with network(*SERVICES, "postgres", "envoy") as hosts:
        within = tuple(hosts.hosts["postgres"].within("net", "pid"))
        extra = {
            # Who may call is not what breaks here.
            "gateway": {"REFLECTOR_ADDR": hosts.at("envoy", port), "HANSEI_AUTH": "off", "GATEWAY_API_TOKEN": ""},
        }
        data = tmp_path_factory.mktemp("apart")
        with (
            envoy(hosts, "envoy", port, hosts.at("reflector", port)) as between,
            postgres_server(programs, within, POSTGRES_PORT) as postgres,
            cluster(manifests, postgres, data, extra=extra, place=hosts) as running,
        ):
            yield Apart(hosts, running, between)


@pytest.fixture(autouse=True)
def healed(apart: Apart) -> Iterator[None]:
    """What one test breaks is whole for the next one."""
    yield
    apart.network.heal()
    apart.envoy.delay(0)


async def test_packets_between_the_gateway_and_the_curator_are_dropped(apart: Apart) -> None:
    async with load(apart.address, call_seconds=CALL_SECONDS) as callers:
        apart.network.cut("gateway", "curator")
        await met(callers, lambda: sum(callers.ledger.refused.values()) >= CALLERS)
        assert apart.network.dropped("curator") + apart.network.dropped("gateway") > 0
        apart.network.heal()
        seconds = await recovered(callers)
        await callers.found(FOUND_SECONDS)
    assert {said.split()[0] for said in callers.ledger.refused} <= {"DEADLINE_EXCEEDED", "UNAVAILABLE", "not"}
    settled("packets dropped between gateway and curator", apart.address, callers.ledger, seconds)


async def test_packets_between_search_and_the_curator_are_dropped(apart: Apart) -> None:
    """The feed stands still; learning goes on (vectors of the lessons are known), and all of it is found afterwards."""
    async with load(apart.address, call_seconds=CALL_SECONDS) as callers:
        apart.network.cut("search", "curator")
        await callers.progress(2 * CALLERS)
        with pytest.raises((DeadlineExceeded, Unavailable)):
            await callers.found(CALL_SECONDS)
        assert apart.network.dropped("curator") + apart.network.dropped("search") > 0
        apart.network.heal()
        seconds = await recovered(callers)
        await callers.found(FOUND_SECONDS)
    settled("packets dropped between search and curator", apart.address, callers.ledger, seconds)


async def test_a_tenth_of_all_packets_is_lost(apart: Apart) -> None:
    async with load(apart.address) as callers:
        apart.network.lose(LOST_PERCENT)
        seconds = await recovered(callers)
        await callers.progress()
        assert all(apart.network.dropped(name) for name in ("gateway", "curator", "search", "postgres"))
        await callers.found(FOUND_SECONDS)
    settled(f"{LOST_PERCENT} % of all packets lost", apart.address, callers.ledger, seconds)


async def test_calls_of_one_service_arrive_late(apart: Apart) -> None:
    """Later than usual, nobody minds; later than callers wait, they are told so when their time is over."""
    async with load(apart.address, call_seconds=CALL_SECONDS) as callers:
        await asyncio.to_thread(apart.envoy.delay, DELAY_SECONDS)
        await callers.progress()
        assert not callers.ledger.refused
        await asyncio.to_thread(apart.envoy.delay, TOO_LONG_SECONDS)
        await met(callers, lambda: sum(callers.ledger.refused.values()) >= CALLERS)
        await asyncio.to_thread(apart.envoy.delay, 0)
        seconds = await recovered(callers)
        await callers.found(FOUND_SECONDS)
    settled(f"reflector {TOO_LONG_SECONDS:g} s late, behind an Envoy", apart.address, callers.ledger, seconds)


async def met(callers: Load, condition: Callable[[], bool]) -> None:
    """Wait for what the callers are told."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the callers do not know us
            await asyncio.sleep(0.05)
