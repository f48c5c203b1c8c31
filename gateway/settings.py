"""Settings of the gateway."""

from __future__ import annotations

import os
from typing import Any

from pydantic import SecretStr, model_validator

from chassis.settings import ServiceSettings, named

HTTP_ADDRESS_VARIABLE = "HANSEI_HTTP_ADDRESS"


class GatewaySettings(ServiceSettings):
    """Where the gateway listens, who may come in over HTTP, and where the services behind it are (G-15)."""

    listen_address: str = "127.0.0.1:50050"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    http_address: str = "127.0.0.1:8080"
    """Where HTTP is served, `host:port`. Port 0 takes a free one. Set to nothing: not at all."""

    gateway_api_token: SecretStr = named(SecretStr(""), "GATEWAY_API_TOKEN")
    """Token that HTTP requests must bear, except to `/health`. Empty: none is asked for (G-30)."""

    workspace: str = ""
    """Folder whose `configs/prompt_builder.toml` holds the prompts of rounds. Empty: built-in, or the environment."""

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

    @model_validator(mode="before")
    @classmethod
    def _nothing_turns_http_off(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Elsewhere a variable set to nothing counts as unset; here it says that HTTP is not wanted."""
        off = os.environ.get(HTTP_ADDRESS_VARIABLE) == ""
        return {"http_address": "", **values} if off else values
