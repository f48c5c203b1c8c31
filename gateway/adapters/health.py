"""The health of the services behind the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chassis.errors import HanseiError
from gateway.contract import Contract


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """A service and its state: the name of a gRPC health status, or `UNREACHABLE` with the reason in `detail`."""

    name: str
    state: str
    detail: str = ""


async def list_health(channel_of: Callable[[str], grpc.aio.Channel], contract: Contract) -> list[ServiceHealth]:
    """Return the health of each service behind the gateway, by the standard health service; queries run in parallel."""

    async def fetch_health(peer: str) -> ServiceHealth:
        stub = health_pb2_grpc.HealthStub(channel_of(peer))
        request = health_pb2.HealthCheckRequest(service=contract.services[peer][0].full_name)
        try:
            status = (await stub.Check(request)).status
        except HanseiError as error:
            return ServiceHealth(peer, "UNREACHABLE", error.message)
        return ServiceHealth(peer, health_pb2.HealthCheckResponse.ServingStatus.Name(status))

    return list(await asyncio.gather(*map(fetch_health, contract.peers)))
