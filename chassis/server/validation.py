"""The rules that stand in the contract, checked on every message that comes in.

`protovalidate` checks the rules; what it leaves open and proto3 lets through, an enum value nobody declared, is
checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import protovalidate
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from chassis.errors import MAX_VALUE_CHARS, InvalidArgument, Violation, shortened

REASON = "INVALID_REQUEST"
UNKNOWN_ENUM_VALUE = "UNKNOWN_ENUM_VALUE"
_CUSTOM_RULES = {"cel", "cel_expression"}
_validator = protovalidate.Validator()


def check(message: Message) -> None:
    """Raise `InvalidArgument` if the message breaks its contract. The error's text is the first violation's."""
    found = [_explained(violation) for violation in _validator.collect_violations(message)]
    known = {violation.field for _, violation in found}
    found += [pair for pair in _undeclared_enums(message) if pair[1].field not in known]
    if found:
        raise InvalidArgument(found[0][0], reason=REASON, violations=[violation for _, violation in found])


def _explained(violation: Any) -> tuple[str, Violation]:
    """The status message of a violation, and the violation. A contract's own message is used unchanged."""
    broken = violation.proto
    path = _path(_elements(broken.field))
    rule = broken.rule_id.upper().replace(".", "_")
    if any(_is_the_contracts_own(element.field_name) for element in _elements(broken.rule)):
        return broken.message, Violation(path, broken.message, rule)
    message = f"{path} {broken.message.removeprefix('value ')}".strip()
    return message, Violation(path, message + _shown(violation.field_value), rule)


def _elements(path: Any) -> Any:
    """The parts of a path; a rule of a whole message, such as a required oneof, has none."""
    return () if path is None else path.elements


def _is_the_contracts_own(rule: str) -> bool:
    """Whether a rule was written for the contract: CEL beside the field, or an extension, whose name has brackets."""
    return rule in _CUSTOM_RULES or rule.startswith("[")


def _shown(value: Any) -> str:
    """The offending value for a description. Messages and collections are not shown: their fields are elsewhere."""
    if isinstance(value, str | bytes):
        value = value[: MAX_VALUE_CHARS + 1]  # it may be as large as a message may be
    return f" (got {shortened(repr(value))})" if isinstance(value, str | bytes | int | float) else ""


def _path(elements: Any) -> str:
    path = ""
    for element in elements:
        path += f".{element.field_name}" if path else element.field_name
        if element.subscript is not None:
            path += _subscript(element.subscript.value)
    return path


def _subscript(key: object) -> str:
    return f'["{shortened(key)}"]' if isinstance(key, str) else f"[{key}]"


@dataclass(frozen=True, slots=True)
class _EnumField:
    """A field that holds enum values, or messages that may: only these are walked."""

    name: str
    enum: EnumDescriptor | None
    repeated: bool
    is_map: bool


@cache
def _may_hold_enums(descriptor: Descriptor) -> bool:
    """Whether an enum can occur anywhere below a message type."""
    seen: set[str] = set()
    open_types = [descriptor]
    while open_types:
        current = open_types.pop()
        if current.full_name in seen or current.full_name.startswith("google.protobuf."):
            continue
        seen.add(current.full_name)
        if any(field.enum_type for field in current.fields):
            return True
        open_types += [field.message_type for field in current.fields if field.message_type]
    return False


@cache
def _enum_fields(descriptor: Descriptor) -> tuple[_EnumField, ...]:
    return tuple(_enum_field(field) for field in descriptor.fields if _is_walked(field))


def _is_walked(field: FieldDescriptor) -> bool:
    return bool(field.enum_type) or (field.message_type is not None and _may_hold_enums(field.message_type))


def _enum_field(field: FieldDescriptor) -> _EnumField:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _EnumField(field.name, entry.fields_by_name["value"].enum_type, repeated=False, is_map=True)
    return _EnumField(field.name, field.enum_type, repeated=field.is_repeated, is_map=False)


def _undeclared_enums(message: Message, prefix: str = "") -> Iterator[tuple[str, Violation]]:
    for field in _enum_fields(message.DESCRIPTOR):
        for subscript, value in _values(message, field):
            path = prefix + field.name + subscript
            if field.enum is None:
                yield from _undeclared_enums(value, path + ".")
            elif value not in field.enum.values_by_number:
                text = f"{path} must be a value of {field.enum.full_name}"
                yield text, Violation(path, f"{text} (got {value})", UNKNOWN_ENUM_VALUE)


def _values(message: Message, field: _EnumField) -> Iterable[tuple[str, Any]]:
    """Return the values of a field, each with its subscript. A number 0 and what is not set break no rule."""
    value = getattr(message, field.name)
    if not value:
        return ()
    if field.is_map:
        return [(_subscript(key), item) for key, item in value.items()]
    if field.repeated:
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    return (("", value),) if field.enum is not None or message.HasField(field.name) else ()
