"""Calls about one dataset reach the replicas that own it, while replicas stop, freeze, return and change addresses."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest

from chassis import OwnServer, Peers, ServiceSettings, errors, replicas, serve
from chassis.channels import OWN
from chassis.connection import Connection
from chassis.replicas import (
    NameLookup,
    OwnShare,
    ReplicaAddress,
    Replicas,
    name_addresses,
    parse_static_list,
    rank_names,
)
from chassis.tests.conftest import Connect, Serve, ServedProbe, wait_until
from chassis.tests.probe import SERVICE, Probe, pb, policies, service, stub
from chassis.tests.process import probe_process

DATASETS = [f"d{number}" for number in range(40)]
NAMES = [f"search-{number}" for number in range(8)]


def join(probes: list[ServedProbe]) -> str:
    return "ipv4:" + ",".join(probe.address for probe in probes)


async def ask_all(probe: Any) -> None:
    """Ask about each dataset, one after another: an idle owner takes every call."""
    for dataset in DATASETS:
        assert (await probe.Echo(pb.EchoRequest(text=dataset, dataset=dataset))).text == dataset


async def test_every_caller_sends_a_dataset_to_the_same_replica(start_probe: Serve, connect_probe: Connect) -> None:
    probes = [await start_probe() for _ in range(3)]
    callers = [connect_probe(join(order), routed=True) for order in (probes, probes[::-1])]
    await ask_all(callers[0])
    once = [probe.probe.calls for probe in probes]

    await ask_all(callers[1])

    assert [probe.probe.calls for probe in probes] == [2 * calls for calls in once]
    assert sum(once) == len(DATASETS)
    assert min(once) > 0


async def test_a_stub_for_each_call_uses_the_same_bound_methods(start_probe: Serve, stack: AsyncExitStack) -> None:
    probes = [await start_probe() for _ in range(2)]
    peers = Peers({"probe": join(probes)}, policies=policies(), routed=True)
    stack.push_async_callback(peers.close)
    for dataset in DATASETS:
        await stub(peers).Echo(pb.EchoRequest(dataset=dataset))
    found = peers.get_channel("probe").replicas
    assert found is not None
    assert [len(replica.methods) for replica in found.choose(DATASETS[0])] == [1, 1]


async def test_a_serialized_request_is_routed_like_its_message(
    start_probe: Serve, connect_probe: Connect, stack: AsyncExitStack
) -> None:
    probes = [await start_probe() for _ in range(3)]
    await ask_all(connect_probe(join(probes), routed=True))
    once = [probe.probe.calls for probe in probes]
    peers = Peers({"probe": join(probes)}, policies=policies(), routed=True)
    stack.push_async_callback(peers.close)
    forward = peers.get_channel("probe").unary_unary(f"/{SERVICE}/Echo")

    for dataset in DATASETS:
        await forward(pb.EchoRequest(text="x" * 200, dataset=dataset).SerializeToString())
    with pytest.raises(errors.InvalidArgument):
        await forward(b"\xff\xff\xff")

    assert [probe.probe.calls for probe in probes] == [2 * calls for calls in once]


async def test_the_second_owner_takes_over_and_hands_back(connect_probe: Connect) -> None:
    settings = ServiceSettings(lame_duck_seconds=0.2, drain_grace_seconds=5)
    both = [Probe(), Probe()]

    @asynccontextmanager
    async def serve_probe(number: int, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
        async with serve(service(both[number]), address, settings=settings) as running:
            yield running.address

    async with serve_probe(0) as staying:
        async with serve_probe(1) as leaving:
            probe = connect_probe(f"ipv4:{staying},{leaving}", routed=True)
            await ask_all(probe)
            owned = both[1].calls
            assert 0 < owned < len(DATASETS)
            asking = asyncio.create_task(ask_all(probe))  # while it drains
        await asking
        await ask_all(probe)  # while it is gone
        assert both[0].calls + both[1].calls == 3 * len(DATASETS)
        async with serve_probe(1, leaving):
            gone = both[1].calls
            async with asyncio.timeout(30):
                while both[1].calls == gone:
                    await ask_all(probe)
            returned = both[1].calls
            await ask_all(probe)
            assert both[1].calls - returned == owned


async def test_a_frozen_replica_costs_one_deadline(connect_probe: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SUSPENDED_SECONDS", 60.0)
    async with probe_process() as freezing, probe_process() as serving:
        addresses = [(await process.read_until("server started"))["address"] for process in (freezing, serving)]
        probe = connect_probe("ipv4:" + ",".join(addresses), routed=True)
        await ask_all(probe)
        frozen = next(d for d in DATASETS if rank_names(d, addresses)[0] == addresses[0])
        freezing.process.send_signal(signal.SIGSTOP)

        with pytest.raises(errors.DeadlineExceeded):
            await probe.Echo(pb.EchoRequest(dataset=frozen), timeout=1.5)
        await ask_all(probe)

        freezing.process.send_signal(signal.SIGCONT)


async def test_a_killed_replica_fails_no_call(connect_probe: Connect) -> None:
    async with probe_process() as killed, probe_process() as staying, probe_process() as other:
        addresses = [(await process.read_until("server started"))["address"] for process in (killed, staying, other)]
        probe = connect_probe("ipv4:" + ",".join(addresses), routed=True)
        await ask_all(probe)
        asking = [asyncio.create_task(ask_all(probe)) for _ in range(8)]
        killed.process.kill()
        await asyncio.gather(*asking)
        await ask_all(probe)


async def test_an_error_of_the_owner_is_not_asked_for_again_elsewhere(
    start_probe: Serve, connect_probe: Connect
) -> None:
    probes = [await start_probe() for _ in range(3)]
    probe = connect_probe(join(probes), routed=True)

    with pytest.raises(errors.Unavailable, match="the model does not answer"):
        await probe.Echo(pb.EchoRequest(dataset="d1", fail="model"))

    assert sorted(probe.probe.calls for probe in probes) == [0, 0, 1]


async def test_services_route_to_a_peer_with_several_replicas(stack: AsyncExitStack) -> None:
    class Caller(ServiceSettings):
        search_addr: str = "ipv4:127.0.0.1:1,127.0.0.1:2"
        curator_addr: str = "127.0.0.1:1"
        planner_addr: str = OWN

    peers = Peers.from_settings(Caller(), OwnServer("127.0.0.1:3"), None)
    stack.push_async_callback(peers.close)
    for peer in ("search", "curator", "planner"):
        peers.get_channel(peer).unary_unary("/hansei.search.v1.SearchService/Embed")
        assert peers.get_channel(peer).replicas is None  # no method is routed: nothing is resolved
        peers.get_channel(peer).unary_unary("/hansei.search.v1.SearchService/Search")
    found = peers.get_channel("search").replicas
    assert found is not None
    assert found.names == ["127.0.0.1:1", "127.0.0.1:2"]
    assert [peers.get_channel(peer).replicas for peer in ("curator", "planner")] == [None, None]


class ScriptedConnection(Connection):
    """A connection whose state the test sets."""

    def __init__(self, target: str) -> None:
        super().__init__(lambda bundle: grpc.aio.insecure_channel(target))
        self.state = grpc.ChannelConnectivity.READY
        self.channel.get_state = lambda try_to_connect=False: self.state  # type: ignore[method-assign]


@pytest.fixture
async def scripted_replicas(stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replicas without servers, whose addresses are those in a list that the test changes."""
    monkeypatch.setattr(replicas, "RESOLVE_SECONDS", 0.001)
    addresses = [ReplicaAddress(name, f"ipv4:127.0.0.1:{port}") for port, name in enumerate(NAMES, 1)]

    async def look_up(host: str, port: int) -> list[ReplicaAddress]:
        if not addresses:
            raise OSError("no such name")
        return list(addresses)

    found = Replicas("search", "search:50053", lambda address: ScriptedConnection(address.target), look_up)
    stack.push_async_callback(found.close)
    await wait_until(lambda: len(found.names) == len(NAMES))
    return found, addresses


async def test_an_owner_beyond_its_share_of_the_load_yields_to_the_second_one(scripted_replicas: Any) -> None:
    found, _ = scripted_replicas
    first, second = found.choose("busy")
    for _ in range(40):
        found.record_call_start(found.choose("busy")[0])
    limit = replicas.FREE_CALLS + replicas.LOAD_FACTOR * 40 / len(NAMES)
    assert first.in_flight + second.in_flight == 40
    assert min(first.in_flight, second.in_flight) > limit  # both beyond it: they share the rest
    assert abs(first.in_flight - second.in_flight) <= limit
    for _ in range(first.in_flight):
        found.record_call_end(first)
    assert found.choose("busy")[0] is first


async def test_owners_that_are_unhealthy_or_connecting(scripted_replicas: Any) -> None:
    found, _ = scripted_replicas
    first, second = found.choose("d")
    first.connection.state = grpc.ChannelConnectivity.TRANSIENT_FAILURE
    assert found.choose("d") == (second,)
    second.connection.state = grpc.ChannelConnectivity.CONNECTING
    assert found.choose("d") == (second,)
    second.suspend()
    assert found.choose("d") == ()
    first.connection.state = grpc.ChannelConnectivity.READY
    assert found.choose("d")[0] is first


async def test_addresses_are_resolved_again(scripted_replicas: Any) -> None:
    found, addresses = scripted_replicas
    before = {dataset: found.choose(dataset)[0] for dataset in DATASETS}
    gone = addresses.pop()
    await wait_until(lambda: gone.name not in found.names)
    for dataset, owner in before.items():
        assert (found.choose(dataset)[0] is owner) is (owner.address != gone)
    remaining = addresses[:]
    addresses.clear()  # a failed lookup changes nothing
    await asyncio.sleep(0.01)
    assert found.names == [address.name for address in remaining]
    addresses.extend([*remaining, gone])
    await wait_until(lambda: gone.name in found.names)
    names = {dataset: found.choose(dataset)[0].address.name for dataset in DATASETS}
    assert names == {dataset: owner.address.name for dataset, owner in before.items()}


async def test_a_host_that_cannot_be_a_name_of_dns_stops_no_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "RESOLVE_SECONDS", 0.001)
    lookups = 0

    async def look_up(host: str, port: int) -> list[ReplicaAddress]:
        nonlocal lookups
        lookups += 1
        return await NameLookup()(host, port)

    running = asyncio.create_task(OwnShare("search", "search..svc:50053", "ipv4:127.0.0.1:1", look_up).run())
    await wait_until(lambda: lookups > 1 or running.done())
    assert not running.done()
    running.cancel()


def test_a_replica_that_leaves_moves_only_its_own_share() -> None:
    keys = [f"dataset-{number}" for number in range(2000)]
    before = {key: rank_names(key, NAMES)[:2] for key in keys}
    after = {key: rank_names(key, NAMES[1:])[:2] for key in keys}
    moved = [key for key in keys if before[key][0] != after[key][0]]
    assert {before[key][0] for key in moved} == {NAMES[0]}
    assert all(after[key][0] == before[key][1] for key in moved)
    assert len(moved) < 0.15 * len(keys)
    shares = [sum(first == name for first, _ in before.values()) / len(keys) for name in NAMES]
    assert 0.10 < min(shares) <= max(shares) < 0.15


async def test_each_process_owns_the_keys_for_which_callers_choose_it_first(
    scripted_replicas: Any, stack: AsyncExitStack
) -> None:
    found, addresses = scripted_replicas

    async def look_up(host: str, port: int) -> list[ReplicaAddress]:
        return list(addresses)

    processes = list(addresses)
    shares = {address: OwnShare("search", "search:50053", address.target, look_up) for address in processes}
    alone = OwnShare("search", "search:50053", "", look_up)

    def find_owners(key: str) -> list[ReplicaAddress]:
        return [address for address, share in shares.items() if share.is_first_owner(key)]

    assert [find_owners(dataset) for dataset in DATASETS] == [processes] * len(DATASETS)  # nothing is resolved yet
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(share.run()) for share in shares.values()]
        await alone.run()
        await wait_until(lambda: all(len(find_owners(dataset)) == 1 for dataset in DATASETS))
        for dataset in DATASETS:
            assert find_owners(dataset) == [found.choose(dataset)[0].address]
            assert alone.is_first_owner(dataset)

        gone = addresses.pop(0)
        await wait_until(lambda: gone.name not in found.names and all(gone in find_owners(key) for key in DATASETS))
        await wait_until(lambda: all(len(find_owners(dataset)) == 2 for dataset in DATASETS))
        for dataset in DATASETS:  # a process without an address, such as one that is not ready, keeps all its keys
            assert find_owners(dataset) == [gone, found.choose(dataset)[0].address]

        del addresses[1:]
        await wait_until(lambda: find_owners(DATASETS[0]) == processes)  # the last one has no other to leave them to
        for task in tasks:
            task.cancel()


async def test_a_static_list_is_read_once() -> None:
    shares = [OwnShare("search", "ipv4:127.0.0.1:1,127.0.0.1:2", f"ipv4:127.0.0.1:{port}") for port in (1, 2, 3)]
    for share in shares:
        await share.run()
    first, second, other = ([share.is_first_owner(dataset) for dataset in DATASETS] for share in shares)
    assert first == [not owned for owned in second]
    assert 0 < sum(first) < len(DATASETS)
    assert all(other)


@pytest.mark.parametrize(
    ("address", "targets"),
    [
        ("search:50053", None),
        ("dns:///search.hansei.svc:50053", None),
        ("127.0.0.1:50053", []),
        ("[::1]:50053", []),
        ("unix:/run/search.sock", []),
        ("ipv4:10.0.0.1:1,10.0.0.2:1", ["ipv4:10.0.0.1:1", "ipv4:10.0.0.2:1"]),
        ("ipv6:[::1]:1,[::2]:1", ["ipv6:[::1]:1", "ipv6:[::2]:1"]),
    ],
)
def test_static_lists_and_names(address: str, targets: list[str] | None) -> None:
    found = parse_static_list(address)
    assert (None if found is None else [item.target for item in found]) == targets


def test_a_replica_is_named_by_its_own_name_unless_others_share_it() -> None:
    names = {"10.0.0.1": "search-0", "10.0.0.2": "host", "10.0.0.3": "host", "fd00::4": "fd00::4"}
    assert name_addresses(names, 5) == [
        ReplicaAddress("search-0:5", "ipv4:10.0.0.1:5"),
        ReplicaAddress("10.0.0.2:5", "ipv4:10.0.0.2:5"),
        ReplicaAddress("10.0.0.3:5", "ipv4:10.0.0.3:5"),
        ReplicaAddress("fd00::4:5", "ipv6:[fd00::4]:5"),
    ]
