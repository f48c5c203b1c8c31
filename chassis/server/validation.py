"""Validation of requests by the rules of the contract.

`protovalidate` checks the rules. Undeclared enum values, which proto3 accepts, are checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import protovalidate
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from chassis.errors import MAX_VALUE_CHARS, InvalidArgument, Violation, shorten
from chassis.field_errors import describe_value

REASON = "INVALID_REQUEST"
UNKNOWN_ENUM_VALUE = "UNKNOWN_ENUM_VALUE"
_CUSTOM_RULES = {"cel", "cel_expression"}
# The contracts exclude only the value 0 of an enum, which an omitted field has.
_MESSAGES = {"enum.not_in": "is required"}
_validator = protovalidate.Validator()


def check(message: Message) -> None:
    """Raise `InvalidArgument` if the message breaks its contract, with the text of the first violation."""
    found = [_explain(violation) for violation in _validator.collect_violations(message)]
    broken_fields = {violation.field for _, violation in found}
    if _has_undeclared_enums(message):
        found += [pair for pair in _find_undeclared_enums(message) if pair[1].field not in broken_fields]
    if found:
        raise InvalidArgument(found[0][0], reason=REASON, violations=[violation for _, violation in found])


def _explain(violation: Any) -> tuple[str, Violation]:
    """Return the status message of a violation, and the violation. A message of the contract is used unchanged."""
    broken = violation.proto
    path = _format_path(_list_elements(broken.field))
    rule = broken.rule_id.upper().replace(".", "_")
    if any(_is_contract_rule(element.field_name) for element in _list_elements(broken.rule)):
        return broken.message, Violation(path, broken.message, rule)
    message = f"{path} {_MESSAGES.get(broken.rule_id) or broken.message.removeprefix('value ')}".strip()
    return message, Violation(path, message + _format_value(violation.field_value), rule)


def _list_elements(path: Any) -> Any:
    """Return the parts of a path; a rule of a whole message, such as a required oneof, has none."""
    return () if path is None else path.elements


def _is_contract_rule(rule: str) -> bool:
    """Return whether a rule is the contract's own: CEL beside the field, or an extension, whose name has brackets."""
    return rule in _CUSTOM_RULES or rule.startswith("[")


def _format_value(value: Any) -> str:
    """Return the invalid value for a description; empty for messages and collections."""
    if isinstance(value, str):
        # It may be as large as a message.
        return f" (got {shorten(repr(value[: MAX_VALUE_CHARS + 1]))})"
    return f" (got {describe_value(value)})" if isinstance(value, bytes | int | float) else ""


def _format_path(elements: Any) -> str:
    path = ""
    for element in elements:
        path += f".{element.field_name}" if path else element.field_name
        if element.subscript is not None:
            path += _format_subscript(element.subscript.value)
    return path


def _format_subscript(key: object) -> str:
    return f'["{shorten(key)}"]' if isinstance(key, str) else f"[{key}]"


@dataclass(frozen=True, slots=True)
class _EnumField:
    """A field with enum values, or with messages that may have some; only these are checked."""

    name: str
    enum: EnumDescriptor | None
    numbers: frozenset[int]
    repeated: bool
    is_map: bool


@cache
def _may_hold_enums(descriptor: Descriptor) -> bool:
    """Return whether an enum can occur anywhere below a message type."""
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
def _list_enum_fields(descriptor: Descriptor) -> tuple[_EnumField, ...]:
    return tuple(_build_enum_field(field) for field in descriptor.fields if _is_checked(field))


def _is_checked(field: FieldDescriptor) -> bool:
    return bool(field.enum_type) or (field.message_type is not None and _may_hold_enums(field.message_type))


def _build_enum_field(field: FieldDescriptor) -> _EnumField:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        enum, is_map = entry.fields_by_name["value"].enum_type, True
    else:
        enum, is_map = field.enum_type, False
    numbers = frozenset() if enum is None else frozenset(enum.values_by_number)
    return _EnumField(field.name, enum, numbers, repeated=field.is_repeated and not is_map, is_map=is_map)


def _has_undeclared_enums(message: Message) -> bool:
    """Return whether an enum of the message has an undeclared value: `_find_undeclared_enums` without the paths."""
    for field in _list_enum_fields(message.DESCRIPTOR):
        value = getattr(message, field.name)
        if field.is_map:
            values = value.values()
        elif field.repeated:
            values = value
        else:
            values = (value,) if field.enum is not None or message.HasField(field.name) else ()
        for item in values:
            if _has_undeclared_enums(item) if field.enum is None else item not in field.numbers:
                return True
    return False


def _find_undeclared_enums(message: Message, prefix: str = "") -> Iterator[tuple[str, Violation]]:
    for field in _list_enum_fields(message.DESCRIPTOR):
        for subscript, value in _iterate_values(message, field):
            path = prefix + field.name + subscript
            if field.enum is None:
                yield from _find_undeclared_enums(value, path + ".")
            elif value not in field.numbers:
                text = f"{path} must be a value of {field.enum.full_name}"
                yield text, Violation(path, f"{text} (got {value})", UNKNOWN_ENUM_VALUE)


def _iterate_values(message: Message, field: _EnumField) -> Iterable[tuple[str, Any]]:
    """Return the values of a field, each with its subscript. The number 0 and unset fields break no rule."""
    value = getattr(message, field.name)
    if not value:
        return ()
    if field.is_map:
        return [(_format_subscript(key), item) for key, item in value.items()]
    if field.repeated:
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    return (("", value),) if field.enum is not None or message.HasField(field.name) else ()
