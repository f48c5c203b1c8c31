"""Deadlines, request ids and traces go with a request through all its hops."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from chassis import Peers, deadlines, errors
from chassis.calls import Call, current_call
from chassis.tests.conftest import Connect, Serve, collect, until
from chassis.tests.probe import Probe, pb


async def chain(served: Serve, connected: Connect) -> Any:
    """A stub of the first of three servers, each of which calls the next one with a policy of 30 seconds."""
    last = await served()
    middle = await served(Probe(next_hop=connected(last.address)))
    first = await served(Probe(next_hop=connected(middle.address)))
    return connected(first.address)


async def test_a_deadline_is_handed_down_two_hops_less_a_reserve(served: Serve, connected: Connect) -> None:
    first = await chain(served, connected)

    with deadlines.within(10):
        answer = await first.Trace(pb.TraceRequest(hops=2))

    one, two, three = answer.remaining_seconds
    reserve = deadlines.RESERVE_MAX_SECONDS * 0.9  # gRPC rounds a deadline up when it sends it
    assert 0 < one <= 10 - reserve
    assert 0 < two <= one - reserve
    assert 0 < three <= two - reserve


async def test_the_policy_of_a_method_bounds_a_call_nobody_else_does(served: Serve, connected: Connect) -> None:
    probe = connected((await served()).address, timeout=7)

    (left,) = (await probe.Trace(pb.TraceRequest())).remaining_seconds

    assert 0 < left <= 7


async def test_all_hops_share_one_correlation_id(served: Serve, connected: Connect) -> None:
    first = await chain(served, connected)
    token = current_call.set(Call("test", "request-17"))

    answer = await first.Trace(pb.TraceRequest(hops=2))

    current_call.reset(token)
    assert list(answer.correlation_ids) == ["request-17"] * 3


async def test_without_a_correlation_id_the_first_hop_makes_one(served: Serve, connected: Connect) -> None:
    first = await chain(served, connected)

    answer = await first.Trace(pb.TraceRequest(hops=2))

    assert len(set(answer.correlation_ids)) == 1
    assert len(answer.correlation_ids[0]) == 32


async def test_a_slow_peer_costs_no_more_than_the_deadline(served: Serve, connected: Connect) -> None:
    server = await served()
    probe = connected(server.address)

    with deadlines.within(0.3), pytest.raises(errors.DeadlineExceeded, match="probe did not answer in time"):
        await probe.Wait(pb.WaitRequest())

    await until(lambda: server.probe.unwound == ["Wait"])


async def test_the_policys_timeout_cuts_a_slow_stream(served: Serve, connected: Connect) -> None:
    server = await served()
    received: list[object] = []

    with pytest.raises(errors.DeadlineExceeded):
        await collect(connected(server.address, timeout=0.3).Follow(pb.FollowRequest()), received)

    assert received == [pb.FollowResponse()]
    await until(lambda: server.probe.unwound == ["Follow"])


async def test_a_caller_who_leaves_ends_the_work(served: Serve, connected: Connect) -> None:
    server = await served()
    call = asyncio.create_task(connected(server.address).Wait(pb.WaitRequest()))
    await server.probe.waiting.acquire()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await until(lambda: server.probe.unwound == ["Wait"])


async def test_a_reader_who_leaves_a_stream_ends_it(served: Serve, connected: Connect) -> None:
    server = await served()
    following = connected(server.address).Follow(pb.FollowRequest())
    await anext(following)

    await following.aclose()

    await until(lambda: server.probe.unwound == ["Follow"])


async def test_no_call_is_made_when_no_time_is_left(served: Serve, connected: Connect) -> None:
    server = await served()

    with deadlines.within(0.001), pytest.raises(errors.DeadlineExceeded, match="no time is left"):
        await connected(server.address).Echo(pb.EchoRequest())

    assert server.probe.calls == 0


async def test_a_dead_peer_is_unavailable_at_once_and_by_name(connected: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody can answer there
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        with deadlines.within(20), pytest.raises(errors.Unavailable) as caught:
            await connected(address).Echo(pb.EchoRequest())

    assert str(caught.value) == "probe does not answer"
    assert caught.value.reason == "PEER_UNAVAILABLE"
    assert address not in str(caught.value)


async def test_a_peer_that_dies_during_a_call_is_unavailable(connected: Connect) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(24)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with deadlines.within(20), pytest.raises(errors.Unavailable):
            await connected(address).Echo(pb.EchoRequest())


async def test_a_peer_without_an_address_is_named() -> None:
    with pytest.raises(errors.FailedPrecondition, match="CURATOR_ADDR is not set"):
        Peers({}, policies={}).channel("curator")
