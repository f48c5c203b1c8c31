"""The endpoint `GET /v1/about`: the version of hansei, its chat model, its gRPC port, and where its data is."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from chassis.settings import DATA_DIRECTORY_VARIABLE
from libs.llm.settings import LLMSettings


class GatewayFacts(BaseModel):
    """Facts about the running gateway, from its own environment."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "version": "0.2.0",
                    "llm_provider": "offline",
                    "llm_model": "",
                    "data_directory": "/var/lib/hansei",
                    "grpc_port": 50050,
                }
            ]
        }
    )

    version: str
    """Empty if hansei is not installed as a package, as in an image."""
    llm_provider: str
    """`offline`: no model, the agents work by rules."""
    llm_model: str
    """Empty for `offline`."""
    data_directory: str
    """Empty if the gateway requires credentials: then only its operator knows the paths."""
    grpc_port: int
    """The port at which this process serves gRPC; 0 if it serves none."""


def find_version() -> str:
    """Return the version of the installed package; empty if there is none."""
    for name in ("hansei-server", "hansei"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


def describe_gateway(grpc_address: str, *, shows_paths: bool) -> GatewayFacts:
    """Return the facts, from settings that are read now, with the port of `grpc_address`. Raises BadSetting."""
    settings = LLMSettings()
    folder = os.environ.get(DATA_DIRECTORY_VARIABLE) or os.path.abspath("data")
    return GatewayFacts(
        version=find_version(),
        llm_provider=settings.llm_provider,
        llm_model="" if settings.is_offline else settings.llm_model,
        data_directory=folder if shows_paths else "",
        grpc_port=int(grpc_address.rpartition(":")[2] or 0),
    )


def build_routes(describe: Callable[[], GatewayFacts]) -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get(
        "/v1/about",
        response_model=GatewayFacts,
        tags=["health"],
        operation_id="Health_GetAbout",
        summary="Get the version, the chat model, the gRPC port and the data directory",
    )
    async def get_about() -> GatewayFacts:
        """Return facts about the gateway."""
        return describe()

    return router
