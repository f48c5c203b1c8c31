"""A server that has enough to do says so, to callers and not to probes of its health."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chassis import errors
from chassis.tests.conftest import Connect, Serve
from chassis.tests.probe import pb


async def test_a_call_above_the_limit_is_refused_with_a_retry_delay(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe(max_concurrent_calls=2, overload_retry_seconds=0.25)
    probe = connect_probe(server.address)
    taken = [asyncio.create_task(probe.Wait(pb.WaitRequest())) for _ in range(2)]
    for _ in taken:
        await server.probe.waiting.acquire()

    with pytest.raises(errors.ResourceExhausted) as refused:
        await probe.Echo(pb.EchoRequest())

    assert (refused.value.reason, refused.value.retry_after) == ("OVERLOADED", 0.25)
    server.probe.release.set()
    await asyncio.gather(*taken)
    assert (await probe.Echo(pb.EchoRequest(text="now"))).text == "now"


async def test_streams_have_admission_slots_of_their_own(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe(max_concurrent_streams=1)
    probe = connect_probe(server.address)
    following = probe.Follow(pb.FollowRequest())
    await anext(following)

    with pytest.raises(errors.ResourceExhausted):
        await anext(probe.Follow(pb.FollowRequest()))

    assert (await probe.Echo(pb.EchoRequest(text="still"))).text == "still"
    await following.aclose()


async def test_health_responds_while_all_admission_slots_are_taken(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe(max_concurrent_calls=1)
    taken = asyncio.create_task(connect_probe(server.address).Wait(pb.WaitRequest()))
    await server.probe.waiting.acquire()

    async with grpc.aio.insecure_channel(server.address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)

    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    server.probe.release.set()
    await taken
