"""Deadlines, request ids and traces go with a request through all its hops."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import grpc
import pytest

from chassis import Peers, deadlines, errors
from chassis.calls import Call, current_call
from chassis.server.server import build_server_options
from chassis.settings import ServiceSettings
from chassis.tests.conftest import Connect, Serve, collect, wait_until
from chassis.tests.probe import Probe, pb, rpc


async def chain(start_probe: Serve, connect_probe: Connect) -> Any:
    """Return a stub of the first of three servers, each of which calls the next one with a policy of 30 seconds."""
    last = await start_probe()
    middle = await start_probe(Probe(next_hop=connect_probe(last.address)))
    first = await start_probe(Probe(next_hop=connect_probe(middle.address)))
    return connect_probe(first.address)


async def test_a_deadline_is_handed_down_two_hops_less_a_reserve(start_probe: Serve, connect_probe: Connect) -> None:
    first = await chain(start_probe, connect_probe)

    with deadlines.time_limit(10):
        answer = await first.Trace(pb.TraceRequest(hops=2))

    first_seconds, second_seconds, third_seconds = answer.remaining_seconds
    reserve = deadlines.RESERVE_MAX_SECONDS * 0.9  # gRPC rounds a deadline up when it sends it
    assert 0 < first_seconds <= 10 - reserve
    assert 0 < second_seconds <= first_seconds - reserve
    assert 0 < third_seconds <= second_seconds - reserve


async def test_the_policy_of_a_method_limits_a_call_without_a_deadline(
    start_probe: Serve, connect_probe: Connect
) -> None:
    probe = connect_probe((await start_probe()).address, timeout=7)

    (left,) = (await probe.Trace(pb.TraceRequest())).remaining_seconds

    assert 0 < left <= 7


async def test_a_method_that_calls_a_model_may_use_a_longer_deadline_of_the_caller(
    start_probe: Serve, connect_probe: Connect
) -> None:
    probe = connect_probe((await start_probe()).address, timeout=7, longest=100)

    async def remaining(**options: float) -> float:
        (left,) = (await probe.Trace(pb.TraceRequest(), **options)).remaining_seconds
        return float(left)

    # gRPC rounds a deadline up when it sends it.
    assert 0 < await remaining() <= 7.5
    assert 40 < await remaining(timeout=50) <= 51
    assert 90 < await remaining(timeout=500) <= 102
    assert 0 < await remaining(timeout=3) <= 3.5
    with deadlines.time_limit(60):  # of a call that this process serves: other calls need some of it
        assert 25 < await remaining() <= 37
    with deadlines.time_limit(5):
        assert 0 < await remaining() <= 5.5


async def test_pings_during_a_long_call_do_not_end_the_connection() -> None:
    """A server that does not know the permitted interval sends GOAWAY after some pings, as if they were an attack."""
    permitted = {"grpc.http2.min_ping_interval_without_data_ms": 50}
    options = dict(build_server_options(ServiceSettings())) | permitted
    assert set(permitted) <= dict(build_server_options(ServiceSettings())).keys()
    probe = Probe()
    server = grpc.aio.server(options=list(options.items()))
    rpc.add_ProbeServiceServicer_to_server(probe, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    pinging = [("grpc.keepalive_time_ms", 1_000), ("grpc.http2.max_pings_without_data", 0)]
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=pinging) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await rpc.ProbeServiceStub(channel).Wait(pb.WaitRequest(), timeout=7)
    finally:
        await server.stop(None)
    assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED, ended.value.details()


async def test_all_hops_share_one_correlation_id(start_probe: Serve, connect_probe: Connect) -> None:
    first = await chain(start_probe, connect_probe)
    token = current_call.set(Call("test", "request-17"))

    answer = await first.Trace(pb.TraceRequest(hops=2))

    current_call.reset(token)
    assert list(answer.correlation_ids) == ["request-17"] * 3


async def test_without_a_correlation_id_the_first_hop_makes_one(start_probe: Serve, connect_probe: Connect) -> None:
    first = await chain(start_probe, connect_probe)

    answer = await first.Trace(pb.TraceRequest(hops=2))

    assert len(set(answer.correlation_ids)) == 1
    assert len(answer.correlation_ids[0]) == 32


async def test_a_slow_peer_costs_no_more_than_the_deadline(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()
    probe = connect_probe(server.address)

    with deadlines.time_limit(0.3), pytest.raises(errors.DeadlineExceeded, match="probe did not answer in time"):
        await probe.Wait(pb.WaitRequest())

    await wait_until(lambda: server.probe.unwound == ["Wait"])


async def test_the_policys_timeout_cuts_a_slow_stream(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()
    received: list[object] = []

    with pytest.raises(errors.DeadlineExceeded):
        await collect(connect_probe(server.address, timeout=0.3).Follow(pb.FollowRequest()), received)

    assert received == [pb.FollowResponse()]
    await wait_until(lambda: server.probe.unwound == ["Follow"])


async def test_cancelling_a_call_ends_its_work(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()
    call = asyncio.create_task(connect_probe(server.address).Wait(pb.WaitRequest()))
    await server.probe.waiting.acquire()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await wait_until(lambda: server.probe.unwound == ["Wait"])


async def test_leaving_a_stream_ends_its_call(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()
    following = connect_probe(server.address).Follow(pb.FollowRequest())
    await anext(following)

    await following.aclose()

    await wait_until(lambda: server.probe.unwound == ["Follow"])


async def test_no_call_is_made_when_no_time_is_left(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()

    with deadlines.time_limit(0.001), pytest.raises(errors.DeadlineExceeded, match="leaves no time for another call"):
        await connect_probe(server.address).Echo(pb.EchoRequest())

    assert server.probe.calls == 0


async def test_a_dead_peer_is_unavailable_at_once_and_by_name(connect_probe: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: no server can respond there
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        with deadlines.time_limit(20), pytest.raises(errors.Unavailable) as caught:
            await connect_probe(address).Echo(pb.EchoRequest())

    assert str(caught.value) == "probe does not answer"
    assert caught.value.reason == "PEER_UNAVAILABLE"
    assert address not in str(caught.value)


async def test_a_peer_that_dies_during_a_call_is_unavailable(connect_probe: Connect) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(24)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with deadlines.time_limit(20), pytest.raises(errors.Unavailable):
            await connect_probe(address).Echo(pb.EchoRequest())


async def test_a_peer_without_an_address_is_named() -> None:
    with pytest.raises(errors.FailedPrecondition, match="CURATOR_ADDR is not set"):
        Peers({}, policies={}).get_channel("curator")
