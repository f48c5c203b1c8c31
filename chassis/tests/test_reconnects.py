"""Replicas that restart: a client finds each again, and repeats the calls that a stopping server cancels."""

from __future__ import annotations

import asyncio
import socket
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


async def test_no_call_fails_when_two_replicas_restart_one_second_apart() -> None:
    ports = reserve_port(), reserve_port()
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    policies = {path: replace(policy, retry=True) for path, policy in HEALTH_POLICIES.items()}
    options = build_channel_options(policies, 2**20, follow_health=True)
    other = await serve(ports[1])
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        await check(health_pb2.HealthCheckRequest(), wait_for_ready=True)
        ended = asyncio.Event()

        async def call() -> int:
            count = 0
            while not ended.is_set():
                await check(health_pb2.HealthCheckRequest(), timeout=30)
                count += 1
                await asyncio.sleep(0.05)
            return count

        calls = asyncio.create_task(call())
        await asyncio.sleep(AWAY_SECONDS)  # the first replica is away
        first = await serve(ports[0])
        await asyncio.sleep(APART_SECONDS)
        await other.stop(5)
        await asyncio.sleep(APART_SECONDS)
        ended.set()
        assert await calls > 0
    await first.stop(0)


async def test_calls_that_a_stopping_server_cancels_are_repeated() -> None:
    """The client does not follow health, so many calls arrive at the server that stops (ADR 011)."""
    policies = {path: replace(policy, retry=True) for path, policy in HEALTH_POLICIES.items()}
    options = build_channel_options(policies, 2**20, follow_health=False)
    ports = reserve_port(), reserve_port()
    staying, stopping = [await serve(port) for port in ports]
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        await check(health_pb2.HealthCheckRequest(), wait_for_ready=True)
        ended = asyncio.Event()

        async def call() -> int:
            count = 0
            while not ended.is_set():
                await check(health_pb2.HealthCheckRequest(), timeout=30)
                count += 1
            return count

        calls = [asyncio.create_task(call()) for _ in range(CALLERS)]
        for _ in range(STOPS):
            await asyncio.sleep(0.3)
            await stopping.stop(5)
            stopping = await serve(ports[1])
        ended.set()
        assert min(await asyncio.gather(*calls)) > 0
    await asyncio.gather(staying.stop(0), stopping.stop(0))
