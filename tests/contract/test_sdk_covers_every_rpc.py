"""The client has every RPC of every contract, with its request, its response and its kind of stream."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor

from chassis.policy import load_policies
from hansei.client.calls import ServiceClient
from hansei.client.client import AsyncClient, Client
from hansei.client.services import PACKAGES, AllServices
from tests.support.client_methods import collect_declared_methods

ROOT = Path(__file__).parents[2]


def contract_methods() -> list[MethodDescriptor]:
    """Every method of `hansei.*.v1`, those of the contracts that others serve included."""
    found: list[MethodDescriptor] = []
    for file in sorted((ROOT / "protos").glob("hansei/*/v*/*_service.proto")):
        module = importlib.import_module(".".join(file.relative_to(ROOT / "protos").with_suffix("").parts) + "_pb2")
        for service in module.DESCRIPTOR.services_by_name.values():
            found.extend(service.methods)
    return found


METHODS = {f"{method.containing_service.full_name}/{method.name}": method for method in contract_methods()}
CLASSES = [
    cls
    for package in PACKAGES
    for _, cls in inspect.getmembers(importlib.import_module(f"hansei.client.services.{package}"), inspect.isclass)
    if issubclass(cls, ServiceClient) and cls is not ServiceClient
]
DECLARED = {method.path: method for cls in CLASSES for method in collect_declared_methods(cls).values()}


def test_there_are_contracts() -> None:
    assert len(METHODS) > 60


@pytest.mark.parametrize("path", sorted(METHODS))
def test_the_client_has_every_rpc(path: str) -> None:
    assert path in DECLARED, f"add {path} to sdk/hansei/client/services"
    method, ours = METHODS[path], DECLARED[path]
    assert ours.request.DESCRIPTOR.full_name == method.input_type.full_name
    assert ours.response.DESCRIPTOR.full_name == method.output_type.full_name
    arity = f"{_arity(method.client_streaming)}_{_arity(method.server_streaming)}"
    assert ours.arity == arity


def test_the_client_has_no_rpc_that_is_in_no_contract() -> None:
    assert set(DECLARED) - set(METHODS) == set()


async def test_both_clients_have_every_service() -> None:
    expected = {cls.__name__ for cls in CLASSES}
    async with AsyncClient("127.0.0.1:1") as asynchronous:
        assert {type(service).__name__ for service in _services_of(asynchronous)} == expected
    with Client("127.0.0.1:1") as blocking:
        assert {type(service).__name__ for service in _services_of(blocking)} == expected


def test_a_client_loads_a_service_once_when_it_is_used() -> None:
    with Client("127.0.0.1:1") as client:
        assert "playbooks" not in vars(client)
        assert client.playbooks is client.playbooks


def _services_of(client: AllServices[Any]) -> list[object]:
    return [getattr(client, name) for name in AllServices.__annotations__]


def _arity(is_stream: bool) -> str:
    return "stream" if is_stream else "unary"


def test_every_rpc_has_a_policy() -> None:
    assert {f"/{path}" for path in METHODS} <= set(load_policies())
