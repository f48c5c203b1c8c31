"""Puts all services together; the only place that imports more than one.

They call each other over the port they serve, through the same channels and policies as on a cluster, so that what
works here works there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import chassis
from chassis.channels import OWN
from gateway import bootstrap as gateway
from gateway.settings import GatewaySettings
from services.curator import bootstrap as curator
from services.curator.settings import CuratorSettings
from services.planner import bootstrap as planner
from services.planner.settings import PlannerSettings
from services.reflector import bootstrap as reflector
from services.reflector.settings import ReflectorSettings
from services.search import bootstrap as search
from services.search.settings import SearchSettings
from services.validator import bootstrap as validator
from services.validator.settings import ValidatorSettings


class StackSettings(chassis.ServiceSettings):
    """Settings of the process; each service reads its own besides."""

    listen_address: str = "127.0.0.1:50050"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    max_concurrent_streams: int = CuratorSettings.model_fields["max_concurrent_streams"].default
    """Streaming calls of one gRPC service open at once: as many watchers as the curator takes alone."""

    curator_addr: str = OWN
    """Where the curator is; `self` is this process."""

    reflector_addr: str = OWN
    """Where the reflector is; `self` is this process."""

    search_addr: str = OWN
    """Where search is; `self` is this process."""

    planner_addr: str = OWN
    """Where the planner and the generator are; `self` is this process."""

    validator_addr: str = OWN
    """Where the validator is; `self` is this process."""


def build(settings: StackSettings, peers: chassis.Peers, *, http: bool = True) -> list[chassis.Service]:
    """All services, in the order in which they start. `http`: serve people, too.

    Each comes after those it needs in order to start.
    """
    front = chassis.load(GatewaySettings) if http else chassis.load(GatewaySettings, http_address="")
    behind = [
        curator.build(chassis.load(CuratorSettings), peers),
        reflector.build(chassis.load(ReflectorSettings), peers),
        search.build(chassis.load(SearchSettings), peers),
        planner.build(chassis.load(PlannerSettings), peers),
        validator.build(chassis.load(ValidatorSettings), peers),
    ]
    facing = gateway.front(front, peers, beside=behind)
    # One port for all: who may not pass the gateway may not call what stands beside it either.
    return [*(replace(service, guard=facing.guard) for service in behind), facing]


@asynccontextmanager
async def stack(address: str = "127.0.0.1:0") -> AsyncIterator[chassis.Running]:
    """Everything, served within this process until the block ends. Settings come from the environment."""
    settings = chassis.load(StackSettings, listen_address=address, lame_duck_seconds=0)
    certificates = chassis.Certificates.of(settings)
    async with AsyncExitStack() as closing:

        def composed(own_address: str) -> list[chassis.Service]:
            peers = chassis.Peers.of(settings, own_address, certificates)
            closing.push_async_callback(peers.close)
            return build(settings, peers, http=False)

        yield await closing.enter_async_context(
            chassis.serve(composed, address, settings=settings, certificates=certificates)
        )
