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
from tests.deploy.manifests import OVERLAYS, load_manifests
from tests.resilience.envoy import Envoy, envoy
from tests.resilience.load import CALLERS, Load, check_ledger, load, wait_for_recovery
from tests.resilience.namespaces import Network, network
from tests.support.postgres_server import find_postgres_programs_or_skip, postgres_server
from tests.support.systems import SERVICES

POSTGRES_PORT = 5432
CALL_SECONDS = 2.0
FOUND_SECONDS = 30.0
LOST_PERCENT = 10
DELAY_SECONDS = 0.3
TOO_LONG_SECONDS = 5.0


@dataclass(frozen=True)
class RunningOverlay:
    """A running overlay `dev`, and the network it is on."""

    network: Network
    cluster: Cluster
    envoy: Envoy

    @property
    def address(self) -> str:
        """Return `host:port` that leads to the gateway."""
        return self.cluster.address("gateway", SERVICES["gateway"]["listen"])

    def count_dropped_packets(self, *names: str) -> int:
        """Return the number of packets that these hosts dropped."""
        return sum(map(self.network.count_dropped_packets, names))


@pytest.fixture(scope="module")
def separate_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningOverlay]:
    programs, manifests = find_postgres_programs_or_skip(), load_manifests(OVERLAYS / "dev")
    port = SERVICES["reflector"]["listen"]
    with network(*SERVICES, "postgres", "envoy") as hosts:
        within = tuple(hosts.hosts["postgres"].namespace_command("net", "pid"))
        extra = {
            # This test does not concern access control.
            "gateway": {"REFLECTOR_ADDR": hosts.address("envoy", port), "HANSEI_AUTH": "off", "GATEWAY_API_TOKEN": ""},
        }
        data = tmp_path_factory.mktemp("apart")
        with (
            envoy(hosts, "envoy", port, hosts.address("reflector", port)) as between,
            postgres_server(programs, within, POSTGRES_PORT) as postgres,
            cluster(manifests, postgres, data, extra=extra, network=hosts) as running,
        ):
            yield RunningOverlay(hosts, running, between)


@pytest.fixture(autouse=True)
def repaired_network(separate_hosts: RunningOverlay) -> Iterator[None]:
    """Repair the network after each test."""
    yield
    separate_hosts.network.reconnect()
    separate_hosts.envoy.delay(0)


async def test_dropped_packets_between_the_gateway_and_the_curator_are_recovered_from(
    separate_hosts: RunningOverlay,
) -> None:
    async with load(separate_hosts.address, call_seconds=CALL_SECONDS) as callers:
        separate_hosts.network.disconnect("gateway", "curator")
        await wait_until(
            callers,
            lambda: (
                sum(callers.ledger.refused.values()) >= CALLERS
                and separate_hosts.count_dropped_packets("curator", "gateway") > 0
            ),
        )
        separate_hosts.network.reconnect()
        seconds = await wait_for_recovery(callers)
        await callers.assert_search_is_current(FOUND_SECONDS)
    assert {refusal.split()[0] for refusal in callers.ledger.refused} <= {"DEADLINE_EXCEEDED", "UNAVAILABLE", "not"}
    check_ledger("packets dropped between gateway and curator", separate_hosts.address, callers.ledger, seconds)


async def test_dropped_packets_between_search_and_the_curator_are_recovered_from(
    separate_hosts: RunningOverlay,
) -> None:
    """The feed is interrupted; learning continues (lessons are embedded), and search finds all afterwards."""
    async with load(separate_hosts.address, call_seconds=CALL_SECONDS) as callers:
        separate_hosts.network.disconnect("search", "curator")
        await callers.progress(2 * CALLERS)
        with pytest.raises((DeadlineExceeded, Unavailable)):
            await callers.assert_search_is_current(CALL_SECONDS)
        assert separate_hosts.count_dropped_packets("curator", "search") > 0
        separate_hosts.network.reconnect()
        seconds = await wait_for_recovery(callers)
        await callers.assert_search_is_current(FOUND_SECONDS)
    check_ledger("packets dropped between search and curator", separate_hosts.address, callers.ledger, seconds)


async def test_the_loss_of_a_tenth_of_all_packets_is_tolerated(separate_hosts: RunningOverlay) -> None:
    async with load(separate_hosts.address) as callers:
        separate_hosts.network.lose_packets(LOST_PERCENT)
        seconds = await wait_for_recovery(callers)
        await callers.progress()
        assert all(
            separate_hosts.network.count_dropped_packets(name) for name in ("gateway", "curator", "search", "postgres")
        )
        await callers.assert_search_is_current(FOUND_SECONDS)
    check_ledger(f"{LOST_PERCENT} % of all packets lost", separate_hosts.address, callers.ledger, seconds)


async def test_late_calls_of_one_service_are_tolerated(separate_hosts: RunningOverlay) -> None:
    """A delay below the deadline fails no call; a longer one ends calls with DEADLINE_EXCEEDED."""
    async with load(separate_hosts.address, call_seconds=CALL_SECONDS) as callers:
        await asyncio.to_thread(separate_hosts.envoy.delay, DELAY_SECONDS)
        await callers.progress()
        assert not callers.ledger.refused
        await asyncio.to_thread(separate_hosts.envoy.delay, TOO_LONG_SECONDS)
        await wait_until(callers, lambda: sum(callers.ledger.refused.values()) >= CALLERS)
        await asyncio.to_thread(separate_hosts.envoy.delay, 0)
        seconds = await wait_for_recovery(callers)
        await callers.assert_search_is_current(FOUND_SECONDS)
    check_ledger(
        f"reflector {TOO_LONG_SECONDS:g} s late, behind an Envoy", separate_hosts.address, callers.ledger, seconds
    )


async def wait_until(callers: Load, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the callers do not know us
            await asyncio.sleep(0.05)
