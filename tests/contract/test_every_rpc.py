"""No method is forgotten: each has a policy, is served where `deploy/services.yaml` says, and has a README example."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gateway.contract import load_contract
from tests.contract import contracts
from tests.contract.readmes import example_lines
from tests.support import systems

METHODS = sorted(contracts.path_of(method) for method in contracts.methods())


def policies() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for file in (contracts.ROOT / "protos").glob("hansei/*/v1/*_policy.json"):
        for service, methods in json.loads(file.read_text()).items():
            found |= {f"{service}/{name}": policy for name, policy in methods.items()}
    return found


def test_every_method_has_a_policy_and_no_policy_is_left_over() -> None:
    own = {path for path in policies() if path.rpartition("/")[0] not in contracts.SPOKEN_BY_OTHERS}
    assert sorted(own) == METHODS


def test_a_method_is_a_keyed_mutation_exactly_if_its_request_has_a_request_id() -> None:
    def has_request_id(method: MethodDescriptor) -> bool:
        if method.name.startswith("Get") or method.name == "PrepareCuration":  # a read by request_id
            return False
        fields = method.input_type.fields_by_name
        nested = [f.message_type.fields_by_name for f in fields.values() if f.message_type is not None]
        return "request_id" in fields or any("request_id" in inner for inner in nested)

    expected = {contracts.path_of(m) for m in contracts.methods() if has_request_id(m)}
    stated = {path for path, policy in policies().items() if policy["idempotency"] == "request_id"}
    assert stated == expected


def test_the_list_of_services_names_every_contract_once() -> None:
    listed = [name for entry in systems.SERVICES.values() for name in entry["serves"]]
    assert sorted(listed) == sorted(contracts.services())


def test_the_gateway_finds_every_service_of_the_list() -> None:
    """`make protos` copies it from the list."""
    service_names = {
        name: [service.full_name for service in services] for name, services in load_contract().services.items()
    }
    assert service_names == {name: entry["serves"] for name, entry in systems.SERVICES.items()}


@pytest.mark.parametrize("path", METHODS)
def test_every_method_has_an_example_in_a_readme(path: str) -> None:
    assert any(re.search(rf"{re.escape(path)}(\s|$)", line.command) for line in example_lines())


def test_reflection_at_the_front_shows_every_service(system: systems.System) -> None:
    """Issue: one address shows everything, in one process and in many."""
    assert set(contracts.services()) <= set(list_services(system.address))


def test_reflection_of_each_service_shows_the_services_of_the_list(system: systems.System) -> None:
    for name, entry in systems.SERVICES.items():
        assert set(entry["serves"]) <= set(list_services(system.addresses[name]))


@pytest.mark.parametrize("path", METHODS)
def test_every_method_is_served_at_the_front(system: systems.System, path: str) -> None:
    """No empty request is answered with UNIMPLEMENTED."""
    assert _code_of_an_empty_call(system.address, path) != grpc.StatusCode.UNIMPLEMENTED


def list_services(address: str) -> list[str]:
    with grpc.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
        return [service.name for service in answer.list_services_response.service]


def _code_of_an_empty_call(address: str, path: str) -> grpc.StatusCode:
    with grpc.insecure_channel(address) as channel:
        requests = iter([b""])
        open_call: Any = channel.stream_stream
        call = open_call(f"/{path}")(requests, timeout=20)
        try:
            next(call, None)
        except grpc.RpcError as error:
            return cast(grpc.Call, error).code()
        finally:
            call.cancel()
        return grpc.StatusCode.OK
