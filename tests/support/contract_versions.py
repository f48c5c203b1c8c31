"""The contract as an older or a newer release has it: the descriptors of ours, with parts taken away or added."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

import hansei.client.services  # noqa: F401 - makes the whole contract known
from chassis.policy import installed_policies

ADDED, ADDED_NUMBER = "from_the_future", 3000
Change = Callable[[DescriptorProto, str], None]


class Contract:
    """Messages and methods of a contract."""

    def __init__(self, files: list[FileDescriptorProto]) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        for file in files:
            self._pool.AddSerializedFile(file.SerializeToString())

    def message(self, name: str) -> Any:
        """The class of `hansei.<name>`."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"hansei.{name}"))

    def call(self, channel: Any, method: str, **fields: Any) -> Any:
        """A unary method as a client of this contract calls it: `gateway.v1.GatewayService/Learn`."""
        service, _, name = method.partition("/")
        found = self._pool.FindServiceByName(f"hansei.{service}").methods_by_name[name]
        request = message_factory.GetMessageClass(found.input_type)(**fields)
        fill(request)
        response = message_factory.GetMessageClass(found.output_type)
        invoke = channel.unary_unary(
            f"/hansei.{method}", request_serializer=_serialized, response_deserializer=response.FromString
        )
        return invoke(request, timeout=60)


def older(is_unknown: Callable[[str], bool], needed: Container[str]) -> Contract:
    """A contract without the fields, values of enums and methods for which `is_unknown` says so of their full names.

    What a request must have, and what is `needed`, is there in every release.
    """

    def shrink(message: DescriptorProto, name: str) -> None:
        for field in list(message.field):
            full = f"{name}.{field.name}"
            if not _required(field) and full not in needed and is_unknown(full):
                message.field.remove(field)
        _renumber_oneofs(message)

    files = installed()
    for file in files:
        _change(file, shrink)
        for enum in _enums(file):
            # The default is in every release.
            for value in list(enum.value)[1:]:
                full = f"{file.package}.{enum.name}.{value.name}"
                if full not in needed and is_unknown(full):
                    enum.value.remove(value)
        for service in file.service:
            for method in list(service.method):
                full = f"{file.package}.{service.name}/{method.name}"
                if full not in needed and is_unknown(full):
                    service.method.remove(method)
    return Contract(files)


def newer() -> Contract:
    """A contract whose every message has a field that nobody here knows; `fill` sets them all."""

    def grow(message: DescriptorProto, name: str) -> None:
        kind, once = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.LABEL_OPTIONAL
        message.field.add(name=ADDED, number=ADDED_NUMBER, type=kind, label=once, json_name=ADDED)

    files = installed()
    for file in files:
        _change(file, grow)
    return Contract(files)


def fill(message: Any) -> None:
    """Set the added field, where there is one, in a message and all that it holds."""
    if ADDED in message.DESCRIPTOR.fields_by_name:
        setattr(message, ADDED, "unknown")
    for field, value in message.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else [value]:
                fill(each)


def installed() -> list[FileDescriptorProto]:
    """Every file of the contract, each after those that it uses."""
    pool, found = descriptor_pool.Default(), {}

    def take(file: FileDescriptor) -> None:
        for each in file.dependencies:
            take(each)
        if file.name not in found:
            found[file.name] = FileDescriptorProto()
            file.CopyToProto(found[file.name])

    for name in sorted({path.split("/")[1] for path in installed_policies()}):
        take(pool.FindServiceByName(name).file)
    return list(found.values())


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _change(file: FileDescriptorProto, change: Change) -> None:
    """Apply a change to every message of ours in a file."""

    def deep(message: DescriptorProto, name: str) -> None:
        if message.options.map_entry:
            return
        change(message, name)
        for nested in message.nested_type:
            deep(nested, f"{name}.{nested.name}")

    if file.package.startswith("hansei."):
        for message in file.message_type:
            deep(message, f"{file.package}.{message.name}")


def _enums(file: FileDescriptorProto) -> Iterator[EnumDescriptorProto]:
    if file.package.startswith("hansei."):
        yield from file.enum_type


def _required(field: FieldDescriptorProto) -> bool:
    return field_behavior_pb2.REQUIRED in field.options.Extensions[field_behavior_pb2.field_behavior]


def _renumber_oneofs(message: DescriptorProto) -> None:
    """Drop the choices that have no field left; fields name theirs by its place."""
    left = sorted({field.oneof_index for field in message.field if field.HasField("oneof_index")})
    kept = [message.oneof_decl[place] for place in left]
    for field in message.field:
        if field.HasField("oneof_index"):
            field.oneof_index = left.index(field.oneof_index)
    del message.oneof_decl[:]
    message.oneof_decl.extend(kept)
