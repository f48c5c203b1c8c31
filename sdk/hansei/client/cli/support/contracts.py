"""How the contract that a server has differs from the one here, by what the server says of itself (gRPC reflection).

The version in a contract's name says only what may be relied on. A contract of v1 grows, and how far a server has grown
is told by its methods and fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from chassis.policy import installed_policies

SECONDS = 10.0
OWN_FILES = "hansei/"
MAX_DIFFERENCES = 200


def compared(channel: grpc.Channel) -> dict[str, Any]:
    """What of the contract the server has and we do not, and the other way round, among the services it serves."""
    try:
        services, files = _told(channel)
    except grpc.RpcError as error:
        code = cast(grpc.Call, error).code()
        if code is not grpc.StatusCode.UNIMPLEMENTED:
            raise
        return {"unknown": "the server does not describe its contract (HANSEI_REFLECTION)"}
    there = set(_words(files))
    here = set(_words(_installed(services)))
    return {
        "services": services,
        "digest": _digest(there),
        "digest_here": _digest(here),
        "only_there": sorted(there - here)[:MAX_DIFFERENCES],
        "only_here": sorted(here - there)[:MAX_DIFFERENCES],
    }


def _told(channel: grpc.Channel) -> tuple[list[str], list[FileDescriptorProto]]:
    """The services of hansei that a server lists, and the files of theirs."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)

    def ask(requests: Iterable[reflection_pb2.ServerReflectionRequest]) -> Iterator[Any]:
        return iter(stub.ServerReflectionInfo(iter(requests), timeout=SECONDS))

    (listed,) = ask([reflection_pb2.ServerReflectionRequest(list_services="")])
    names = [each.name for each in listed.list_services_response.service if each.name.startswith("hansei.")]
    files: dict[str, FileDescriptorProto] = {}
    for answer in ask(reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in names):
        for content in answer.file_descriptor_response.file_descriptor_proto:
            file = FileDescriptorProto.FromString(content)
            files[file.name] = file
    return sorted(names), list(files.values())


def _installed(services: Iterable[str]) -> list[FileDescriptorProto]:
    """The files of services as they are here, with all that they use."""
    import hansei.client.services  # noqa: F401 - makes the contract known

    pool, files = descriptor_pool.Default(), {}
    known = {path.split("/")[1] for path in installed_policies()}
    waiting = [pool.FindServiceByName(name).file for name in services if name in known]
    while waiting:
        file = waiting.pop()
        if file.name not in files:
            files[file.name] = FileDescriptorProto()
            file.CopyToProto(files[file.name])
            waiting.extend(file.dependencies)
    return list(files.values())


def _words(files: Iterable[FileDescriptorProto]) -> Iterator[str]:
    """Every method, field and value of an enum as a line: two contracts that say the same have the same lines."""
    for file in files:
        if not file.name.startswith(OWN_FILES):
            continue
        for service in file.service:
            for method in service.method:
                way = f"{'stream ' * method.client_streaming}{method.input_type}"
                back = f"{'stream ' * method.server_streaming}{method.output_type}"
                yield f"{file.package}.{service.name}/{method.name}({way}) returns ({back})"
        for message in file.message_type:
            yield from _fields(message, file.package)
        for enum in file.enum_type:
            yield from (f"{file.package}.{enum.name}.{value.name} = {value.number}" for value in enum.value)


def _fields(message: DescriptorProto, scope: str) -> Iterator[str]:
    name = f"{scope}.{message.name}"
    for field in message.field:
        kind = field.type_name or FieldDescriptorProto.Type.Name(field.type)
        label = FieldDescriptorProto.Label.Name(field.label)
        yield f"{name}.{field.name} = {field.number} {label} {kind}"
    for nested in message.nested_type:
        yield from _fields(nested, name)
    for enum in message.enum_type:
        yield from (f"{name}.{enum.name}.{value.name} = {value.number}" for value in enum.value)


def _digest(words: set[str]) -> str:
    return hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:16]
