"""The contract of an older or a newer release: the descriptors of this one with parts removed or added."""

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

from chassis.policy import load_policies
from hansei.client.services import load_contract

load_contract()

ADDED, ADDED_NUMBER = "from_the_future", 3000
Change = Callable[[DescriptorProto, str], None]


class Contract:
    """Messages and methods of a contract."""

    def __init__(self, files: list[FileDescriptorProto]) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        for file in files:
            self._pool.AddSerializedFile(file.SerializeToString())

    def message(self, name: str) -> Any:
        """Return the class of `hansei.<name>`."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"hansei.{name}"))

    def call(self, channel: Any, method: str, **fields: Any) -> Any:
        """Call a unary method, such as `gateway.v1.GatewayService/Learn`, as a client of this contract does."""
        service, _, name = method.partition("/")
        found = self._pool.FindServiceByName(f"hansei.{service}").methods_by_name[name]
        request = message_factory.GetMessageClass(found.input_type)(**fields)
        fill(request)
        response = message_factory.GetMessageClass(found.output_type)
        invoke = channel.unary_unary(
            f"/hansei.{method}", request_serializer=serialize, response_deserializer=response.FromString
        )
        return invoke(request, timeout=60)


def create_older_contract(is_unknown: Callable[[str], bool], needed: Container[str]) -> Contract:
    """Return a contract without the fields, enum values and methods for whose full names `is_unknown` is true.

    What a request must have, and what is `needed`, is there in every release.
    """

    def shrink(message: DescriptorProto, name: str) -> None:
        for field in list(message.field):
            full = f"{name}.{field.name}"
            if not is_required(field) and full not in needed and is_unknown(full):
                message.field.remove(field)
        _renumber_oneofs(message)

    files = installed_files()
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


def create_newer_contract() -> Contract:
    """Return a contract in which every message has a field that this release does not have; `fill` sets them all."""

    def add_field(message: DescriptorProto, name: str) -> None:
        kind, once = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.LABEL_OPTIONAL
        message.field.add(name=ADDED, number=ADDED_NUMBER, type=kind, label=once, json_name=ADDED)

    files = installed_files()
    for file in files:
        _change(file, add_field)
    return Contract(files)


def fill(message: Any) -> None:
    """Set the added field, where there is one, in a message and all that it holds."""
    if ADDED in message.DESCRIPTOR.fields_by_name:
        setattr(message, ADDED, "unknown")
    for field, value in message.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for item in value if field.is_repeated else [value]:
                fill(item)


def installed_files() -> list[FileDescriptorProto]:
    """Return every file of the contract, each after those that it imports."""
    pool, found = descriptor_pool.Default(), {}

    def take(file: FileDescriptor) -> None:
        for dependency in file.dependencies:
            take(dependency)
        if file.name not in found:
            found[file.name] = FileDescriptorProto()
            file.CopyToProto(found[file.name])

    for name in sorted({path.split("/")[1] for path in load_policies()}):
        take(pool.FindServiceByName(name).file)
    return list(found.values())


def serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _change(file: FileDescriptorProto, change: Change) -> None:
    """Apply a change to every message of ours in a file."""

    def apply_to_nested(message: DescriptorProto, name: str) -> None:
        if message.options.map_entry:
            return
        change(message, name)
        for nested in message.nested_type:
            apply_to_nested(nested, f"{name}.{nested.name}")

    if file.package.startswith("hansei."):
        for message in file.message_type:
            apply_to_nested(message, f"{file.package}.{message.name}")


def _enums(file: FileDescriptorProto) -> Iterator[EnumDescriptorProto]:
    if file.package.startswith("hansei."):
        yield from file.enum_type


def is_required(field: FieldDescriptorProto) -> bool:
    return field_behavior_pb2.REQUIRED in field.options.Extensions[field_behavior_pb2.field_behavior]


def _renumber_oneofs(message: DescriptorProto) -> None:
    """Drop the choices that have no field left; fields name theirs by its place."""
    left = sorted({field.oneof_index for field in message.field if field.HasField("oneof_index")})
    oneofs = [message.oneof_decl[index] for index in left]
    for field in message.field:
        if field.HasField("oneof_index"):
            field.oneof_index = left.index(field.oneof_index)
    del message.oneof_decl[:]
    message.oneof_decl.extend(oneofs)
