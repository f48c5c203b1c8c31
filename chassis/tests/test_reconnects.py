"""Replicas that restart: a client finds each again, and repeats the calls that a stopping server cancels."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from chassis.channel_options import build_channel_options
from chassis.policy import HEALTH_POLICIES

AWAY_SECONDS = 12.0
"""After this time a client with the pauses of gRPC's exponential backoff would try once in many seconds."""
APART_SECONDS = 1.0
CALLERS, STOPS = 16, 5


def reserve_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def serve(port: int) -> grpc.aio.Server:
    server, servicer = grpc.aio.server(), health.aio.HealthServicer()  # type: ignore[attr-defined]
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server


@asynccontextmanager
async def calls_to(ports: Sequence[int], callers: int, pause: float, *, follow_health: bool) -> AsyncIterator[None]:
    """Call servers on these ports without end; at the end, no call may have failed, and each caller has made some."""
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    policies = {path: replace(policy, retry=True) for path, policy in HEALTH_POLICIES.items()}
    options = build_channel_options(policies, 2**20, follow_health=follow_health)
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        await check(health_pb2.HealthCheckRequest(), wait_for_ready=True)
        ended = asyncio.Event()

        async def call() -> int:
            count = 0
            while not ended.is_set():
                await check(health_pb2.HealthCheckRequest(), timeout=30)
                count += 1
                await asyncio.sleep(pause)
            return count

        calls = [asyncio.create_task(call()) for _ in range(callers)]
        yield
        ended.set()
        assert min(await asyncio.gather(*calls)) > 0


async def test_no_call_fails_when_two_replicas_restart_one_second_apart() -> None:
    ports = reserve_port(), reserve_port()
    other = await serve(ports[1])
    async with calls_to(ports, 1, 0.05, follow_health=True):
        await asyncio.sleep(AWAY_SECONDS)  # the first replica is away
        first = await serve(ports[0])
        await asyncio.sleep(APART_SECONDS)
        await other.stop(5)
        await asyncio.sleep(APART_SECONDS)
    await first.stop(0)


async def test_calls_that_a_stopping_server_cancels_are_repeated() -> None:
    """The client does not follow health, so many calls arrive at the server that stops (ADR 011)."""
    ports = reserve_port(), reserve_port()
    staying, stopping = [await serve(port) for port in ports]
    async with calls_to(ports, CALLERS, 0.0, follow_health=False):
        for _ in range(STOPS):
            await asyncio.sleep(0.3)
            await stopping.stop(5)
            stopping = await serve(ports[1])
    await asyncio.gather(staying.stop(0), stopping.stop(0))
