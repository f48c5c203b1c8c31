"""Encode domain objects as messages, and decode messages as fields, by the names of the fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from chassis.errors import InvalidArgument, Violation

M = TypeVar("M", bound=Message)


def encode(source: object, message_type: type[M], **values: Any) -> M:
    """Return a message whose fields hold the attributes of `source` with the same names.

    `values` replace attributes. A field whose value is None, or that has no attribute, stays unset.
    """
    message = message_type()
    _fill(message, source, values)
    return message


def decode(message: Message) -> dict[str, Any]:
    """Return the fields of a message by name; an unset optional scalar is None, an unset message is left out.

    Enums become the lower-case names of their values, None for the unspecified value.
    """
    fields: dict[str, Any] = {}
    for field in _list_fields(message.DESCRIPTOR):
        if field.message_type is Timestamp.DESCRIPTOR and not field.is_repeated:
            if (time := decode_time(message, field.name)) is not None:
                fields[field.name] = time
        elif not field.has_presence or message.HasField(field.name):
            fields[field.name] = _decode_value(getattr(message, field.name), field)
        elif field.message_type is None:
            fields[field.name] = None
    return fields


def decode_time(message: Message, name: str) -> datetime | None:
    """Return the time in a field, None if it is unset. Raises InvalidArgument for one outside the years 1 to 9999."""
    if not message.HasField(name):
        return None
    try:
        time: datetime = getattr(message, name).ToDatetime(UTC)
    except (ValueError, OverflowError):
        rule = f"{name} must be a time in the years 1 to 9999"
        raise InvalidArgument(rule, violations=[Violation(name, rule)]) from None
    return time


def encode_enum(enum: Any, value: str) -> int:
    """Return the number of an enum value by its lower-case name."""
    return int(enum.values_by_name[_get_prefix(enum) + value.upper()].number)


def decode_enum(enum: Any, number: int) -> str | None:
    """Return the lower-case name of an enum value; None for the unspecified value."""
    return str(enum.values_by_number[number].name).removeprefix(_get_prefix(enum)).lower() if number else None


@cache
def _get_prefix(enum: Any) -> str:
    return str(enum.values_by_number[0].name).removesuffix("UNSPECIFIED")


class _Field(NamedTuple):
    """The facts of a field. To ask its descriptor for them takes longer than to convert its value."""

    name: str
    message_type: Descriptor | None
    enum_type: EnumDescriptor | None
    is_repeated: bool
    has_presence: bool


@cache
def _list_fields(kind: Descriptor) -> tuple[_Field, ...]:
    return tuple(_Field(*(getattr(field, fact) for fact in _Field._fields)) for field in kind.fields)


def _fill(message: Message, source: object, values: Mapping[str, Any]) -> None:
    for field in _list_fields(message.DESCRIPTOR):
        value = values[field.name] if field.name in values else getattr(source, field.name, None)
        if value is None:
            continue
        target = getattr(message, field.name)
        if isinstance(value, Mapping):
            target.update(value)
        elif field.is_repeated and field.message_type is not None:
            for item in value:
                if isinstance(item, Message):
                    target.add().CopyFrom(item)
                else:
                    _fill(target.add(), item, {})
        elif field.is_repeated:
            target.extend(value)
        elif isinstance(value, datetime):
            target.FromDatetime(value)
        elif isinstance(value, Message):
            target.CopyFrom(value)
        elif field.message_type is not None:
            target.SetInParent()
            _fill(target, value, {})
        else:
            setattr(message, field.name, value if field.enum_type is None else encode_enum(field.enum_type, value))


def _decode_value(value: Any, field: _Field) -> Any:
    if field.is_repeated:
        return [decode(item) for item in value] if field.message_type is not None else list(value)
    if field.message_type is not None:
        return decode(value)
    return value if field.enum_type is None else decode_enum(field.enum_type, value)
