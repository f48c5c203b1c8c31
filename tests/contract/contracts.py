"""The contracts as the generated code knows them: every service and method of `hansei.*.v1`."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

ROOT = Path(__file__).parents[2]
SPOKEN_BY_OTHERS = {"hansei.planner.v1.ToolService"}
"""Contracts that hansei calls and somebody else serves."""


@cache
def services() -> dict[str, ServiceDescriptor]:
    """Full name to service, for every contract that hansei serves."""
    found = {}
    for file in sorted((ROOT / "protos").glob("hansei/*/v1/*_service.proto")):
        module = ".".join(file.relative_to(ROOT / "protos").with_suffix("").parts) + "_pb2"
        for service in importlib.import_module(module).DESCRIPTOR.services_by_name.values():
            found[service.full_name] = service
    return {name: service for name, service in found.items() if name not in SPOKEN_BY_OTHERS}


def methods() -> list[MethodDescriptor]:
    """Every method that hansei serves."""
    return [method for service in services().values() for method in service.methods]


def path_of(method: MethodDescriptor) -> str:
    """`hansei.search.v1.SearchService/Search`."""
    return f"{method.containing_service.full_name}/{method.name}"
