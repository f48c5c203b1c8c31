"""Compose all services in one process; no other package imports more than one service.

They call each other through the same channels, policies and checks as on a cluster, so a call behaves the same in both;
only a call with one response needs no connection (`chassis.own_server`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import chassis
from allinone.data_locks import build_lock_service
from allinone.parts import load_module, load_settings_class
from chassis.channels import OWN
from gateway import bootstrap as gateway
from gateway.contract import load_contract
from gateway.settings import GatewaySettings

BOOTSTRAPS = {name: load_module(name, "bootstrap") for name in load_contract().peers}
"""The bootstrap of each service behind the gateway, in the order of their start."""


class StackSettings(chassis.ServiceSettings):
    """Settings of the process; each service also reads its own."""

    listen_address: str = "127.0.0.1:50050"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    max_concurrent_streams: int = max(
        load_settings_class(name).model_fields["max_concurrent_streams"].default for name in BOOTSTRAPS
    )
    """Streaming calls of one gRPC service open at once: as many as the service with the most allows alone."""

    def list_peer_addresses(self) -> Mapping[str, str]:
        """Return the address of each service, from `HANSEI_<NAME>_ADDR`; the default is this process."""
        return {name: os.environ.get(f"HANSEI_{name.upper()}_ADDR") or OWN for name in BOOTSTRAPS}


def build(settings: StackSettings, peers: chassis.Peers, *, http: bool = True) -> list[chassis.Service]:
    """Return all services in the order in which they start. With `http`, the gateway also serves HTTP.

    Raises BadSetting.
    """
    overrides: dict[str, Any] = {} if http else {"http_address": ""}
    gateway_settings = chassis.read_settings(GatewaySettings, **overrides)
    backend_settings = {name: chassis.read_settings(load_settings_class(name)) for name in BOOTSTRAPS}
    backends: list[chassis.Service] = [
        bootstrap.build(backend_settings[name], peers) for name, bootstrap in BOOTSTRAPS.items()
    ]
    front = gateway.create_front(gateway_settings, peers, local_services=backends)
    locks = build_lock_service([*backend_settings.values(), gateway_settings])
    # All services share one port, so the guard of the gateway protects every one of them.
    return [locks, *(replace(service, guard=front.guard) for service in backends), front]


@asynccontextmanager
async def serve_stack() -> AsyncIterator[chassis.Running]:
    """Serve every service within this process, on a free port, until the block ends.

    Settings come from the environment. Raises BadSetting.
    """
    settings = chassis.read_settings(StackSettings, listen_address="127.0.0.1:0", lame_duck_seconds=0)
    certificates = chassis.Certificates.from_settings(settings)
    async with AsyncExitStack() as closing:

        def compose(own: chassis.OwnServer) -> list[chassis.Service]:
            peers = chassis.Peers.from_settings(settings, own, certificates)
            closing.push_async_callback(peers.close)
            return build(settings, peers, http=False)

        yield await closing.enter_async_context(
            chassis.serve(compose, settings.listen_address, settings=settings, certificates=certificates)
        )
