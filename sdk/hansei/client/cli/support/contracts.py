"""Compare the contract of a server with the installed one, by gRPC reflection.

The version in the name of a contract does not change when the contract grows; methods and fields show the difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from chassis.policy import load_policies

SECONDS = 10.0
MAX_DIFFERENCES = 200


def compare_contracts(channel: grpc.Channel) -> dict[str, Any]:
    """Return the elements of the contract that only the server has, and those that only the client has."""
    try:
        services, files = _reflect(channel)
    except grpc.RpcError as error:
        code = cast(grpc.Call, error).code()
        if code is not grpc.StatusCode.UNIMPLEMENTED:
            raise
        return {"unknown": "the server does not describe its contract (HANSEI_REFLECTION)"}
    of_server = set(_iterate_elements(files))
    installed = set(_iterate_elements(_locate_installed_files(services)))
    return {
        "services": services,
        "digest": _compute_digest(of_server),
        "digest_here": _compute_digest(installed),
        "only_there": sorted(of_server - installed)[:MAX_DIFFERENCES],
        "only_here": sorted(installed - of_server)[:MAX_DIFFERENCES],
    }


def _reflect(channel: grpc.Channel) -> tuple[list[str], list[FileDescriptorProto]]:
    """Return the services of hansei that a server lists, and their files."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)

    def ask(requests: Iterable[reflection_pb2.ServerReflectionRequest]) -> Iterator[Any]:
        return iter(stub.ServerReflectionInfo(iter(requests), timeout=SECONDS))

    (response,) = ask([reflection_pb2.ServerReflectionRequest(list_services="")])
    services = response.list_services_response.service
    names = sorted(service.name for service in services if service.name.startswith("hansei."))
    files: dict[str, FileDescriptorProto] = {}
    for response in ask(reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in names):
        for content in response.file_descriptor_response.file_descriptor_proto:
            file = FileDescriptorProto.FromString(content)
            files[file.name] = file
    return names, list(files.values())


def _locate_installed_files(services: Iterable[str]) -> list[FileDescriptorProto]:
    """Return the installed files of services, with their dependencies."""
    from hansei.client.services import load_contract

    load_contract()
    pool, files = descriptor_pool.Default(), {}
    installed = {path.split("/")[1] for path in load_policies()}
    pending = [pool.FindServiceByName(name).file for name in services if name in installed]
    while pending:
        file = pending.pop()
        if file.name not in files:
            files[file.name] = FileDescriptorProto()
            file.CopyToProto(files[file.name])
            pending.extend(file.dependencies)
    return list(files.values())


def _iterate_elements(files: Iterable[FileDescriptorProto]) -> Iterator[str]:
    """Yield every method, field and enum value of hansei as a line; equal contracts have equal lines."""
    for file in files:
        if not file.name.startswith("hansei/"):
            continue
        for service in file.service:
            for method in service.method:
                request = f"{'stream ' * method.client_streaming}{method.input_type}"
                response = f"{'stream ' * method.server_streaming}{method.output_type}"
                yield f"{file.package}.{service.name}/{method.name}({request}) returns ({response})"
        for message in file.message_type:
            yield from _iterate_message_elements(message, file.package)
        yield from _iterate_enum_elements(file.enum_type, file.package)


def _iterate_message_elements(message: DescriptorProto, scope: str) -> Iterator[str]:
    name = f"{scope}.{message.name}"
    for field in message.field:
        kind = field.type_name or FieldDescriptorProto.Type.Name(field.type)
        label = FieldDescriptorProto.Label.Name(field.label)
        yield f"{name}.{field.name} = {field.number} {label} {kind}"
    for nested in message.nested_type:
        yield from _iterate_message_elements(nested, name)
    yield from _iterate_enum_elements(message.enum_type, name)


def _iterate_enum_elements(enums: Iterable[EnumDescriptorProto], scope: str) -> Iterator[str]:
    return (f"{scope}.{enum.name}.{value.name} = {value.number}" for enum in enums for value in enum.value)


def _compute_digest(elements: set[str]) -> str:
    return hashlib.sha256("\n".join(sorted(elements)).encode()).hexdigest()[:16]
