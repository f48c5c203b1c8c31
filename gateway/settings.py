"""Settings of the gateway."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator

from chassis.settings import ServiceSettings, check_address, create_plain_field
from gateway.access.settings import AccessSettings
from gateway.bulk.settings import BulkSettings
from gateway.contract import load_contract
from gateway.otlp.settings import OtlpSettings
from gateway.outbox.settings import OutboxSettings

HTTP_ADDRESS_VARIABLE = "HANSEI_HTTP_ADDRESS"


class GatewaySettings(AccessSettings, BulkSettings, OtlpSettings, OutboxSettings, ServiceSettings):
    """Settings of the gateway: its addresses, and those of the services behind it (G-15)."""

    listen_address: str = "127.0.0.1:50050"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    http_address: str = "127.0.0.1:8080"
    """Address of HTTP, `host:port`. Port 0 selects a free port. Set to an empty text: HTTP is not served."""

    workspace: str = ""
    """Folder whose `configs/prompt_builder.toml` contains the prompts of rounds. Empty: HANSEI_TEAM_USER_PROMPT, else
    built-in."""

    gateway_database_url: str = Field("data/gateway.db", min_length=1)
    """Database of API keys, audit records, jobs of bulk learning, traces, and trajectories on their way to the archive:
    a file name for SQLite, or a PostgreSQL URL, which gateways can share."""

    curator_addr: str = create_plain_field("127.0.0.1:50051")
    """Address of the curator, `host:port`."""

    reflector_addr: str = create_plain_field("127.0.0.1:50052")
    """Address of the reflector, `host:port`."""

    search_addr: str = create_plain_field("127.0.0.1:50053")
    """Address of search, `host:port`; several replicas as a DNS name that resolves to all of them, or as
    `ipv4:HOST:PORT,HOST:PORT`."""

    planner_addr: str = create_plain_field("127.0.0.1:50054")
    """Address of the planner and the generator, `host:port`."""

    validator_addr: str = create_plain_field("127.0.0.1:50055")
    """Address of the validator, `host:port`."""

    evidence_addr: str = create_plain_field("127.0.0.1:50056")
    """Address of the evidence service, `host:port`."""

    _check_http_address = field_validator("http_address")(check_address)

    def list_peer_addresses(self) -> Mapping[str, str]:
        """Return the addresses of all services; one without a setting here is read from `[HANSEI_]<NAME>_ADDR`."""
        variables = {name: f"{name.upper()}_ADDR" for name in load_contract().peers}
        others = {
            name: os.environ.get(f"HANSEI_{variable}") or os.environ.get(variable)
            for name, variable in variables.items()
        }
        return {name: address for name, address in others.items() if address} | dict(super().list_peer_addresses())

    @model_validator(mode="before")
    @classmethod
    def _read_empty_http_address(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Read an empty variable as "serve no HTTP"; for other settings an empty variable counts as unset."""
        off = os.environ.get(HTTP_ADDRESS_VARIABLE) == ""
        return {"http_address": "", **values} if off else values
