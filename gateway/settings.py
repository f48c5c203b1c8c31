"""Settings of the gateway."""

from __future__ import annotations

from chassis.settings import ServiceSettings, named


class GatewaySettings(ServiceSettings):
    """Where the gateway listens and where the services behind it are (G-15)."""

    listen_address: str = "127.0.0.1:50050"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    curator_addr: str = named("127.0.0.1:50051", "CURATOR_ADDR")
    """Where the curator is, `host:port`."""

    reflector_addr: str = named("127.0.0.1:50052", "REFLECTOR_ADDR")
    """Where the reflector is, `host:port`."""

    search_addr: str = named("127.0.0.1:50053", "SEARCH_ADDR")
    """Where search is, `host:port`."""

    planner_addr: str = named("127.0.0.1:50054", "PLANNER_ADDR")
    """Where the planner and the generator are, `host:port`."""

    validator_addr: str = named("127.0.0.1:50055", "VALIDATOR_ADDR")
    """Where the validator is, `host:port`."""
