"""Parse JSON objects as messages of the contract; errors name the field, the value and the rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from chassis.errors import InvalidArgument, Violation, shorten
from chassis.field_errors import describe_value

_CANNOT_PARSE = (json_format.ParseError, ValueError, TypeError, RecursionError)
_MAX_DEPTH = 50
_MAX_RULE_CHARS = 300
_WHOLE_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_WELL_KNOWN = {
    "google.protobuf.Duration": 'must be a duration such as "1.5s"',
    "google.protobuf.Timestamp": 'must be a time such as "2026-03-01T09:30:00Z"',
    "google.protobuf.Struct": "must be an object",
    "google.protobuf.ListValue": "must be a list",
}


class _Fault(NamedTuple):
    path: str
    rule: str


def parse_message(value: Any, kind: Descriptor) -> Any:
    """Return the message of a JSON value. Raises InvalidArgument, which names the first wrong field."""
    message: Any = GetMessageClass(kind)()
    try:
        json_format.ParseDict(value, message)
    except _CANNOT_PARSE as error:
        fault = next(_find_faults(kind, value, "", 0), _Fault("", "is nested too deeply, or has a field twice"))
        text = shorten(f"{fault.path} {fault.rule}".strip(), _MAX_RULE_CHARS)
        violations = [Violation(fault.path, shorten(fault.rule, _MAX_RULE_CHARS))] if fault.path else []
        raise InvalidArgument(f"not a {kind.name}: {text}", violations=violations) from error
    return message


def _find_faults(kind: Descriptor, value: Any, path: str, depth: int) -> Iterator[_Fault]:
    """Yield the faults of a JSON value in the place of a message. The parser itself decides what is one."""
    if kind.full_name.startswith("google.protobuf."):
        if not _can_parse(kind, value):
            yield _Fault(path, _explain(_WELL_KNOWN.get(kind.full_name, "has an invalid format"), value))
        return
    if not isinstance(value, Mapping):
        yield _Fault(path, _explain("must be an object", value))
        return
    if depth >= _MAX_DEPTH:
        yield _Fault(path, "is nested too deeply")
        return
    chosen: dict[str, str] = {}
    for name, item in value.items():
        field = _find_field(kind, name)
        if field is None:
            yield _Fault(path, f"has no field {shorten(name)!r}")
            continue
        owner = field.containing_oneof.name if field.containing_oneof is not None else field.name
        if item is not None and owner in chosen:
            yield _Fault(path, f"has both {chosen[owner]} and {name}, of which only one may be set")
        if item is not None:
            chosen[owner] = name
        if not _can_parse(kind, {name: item}):
            yield from _find_field_faults(field, item, f"{path}.{name}".lstrip("."), depth)


def _find_field_faults(field: FieldDescriptor, value: Any, path: str, depth: int) -> Iterator[_Fault]:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            yield _Fault(path, _explain("must be an object", value))
            return
        for key, item in value.items():
            yield from _find_value_faults(entry.fields_by_name["value"], item, f'{path}["{shorten(key)}"]', depth)
        yield _Fault(path, "has a wrong key")
    elif not field.is_repeated:
        yield from _find_value_faults(field, value, path, depth)
    elif not isinstance(value, list):
        yield _Fault(path, _explain("must be a list", value))
    else:
        for position, item in enumerate(value):
            element = f"{path}[{position}]"
            if item is None:
                yield _Fault(element, "must not be null")
            else:
                yield from _find_value_faults(field, item, element, depth)


def _find_value_faults(field: FieldDescriptor, value: Any, path: str, depth: int) -> Iterator[_Fault]:
    """Yield the faults of one value; of a scalar in a list only if it cannot be parsed."""
    if field.message_type is not None:
        yield from _find_faults(field.message_type, value, path, depth + 1)
        return
    content = [value] if field.is_repeated else value
    owner = field.containing_type
    if owner is None or owner.GetOptions().map_entry or not _can_parse(owner, {field.name: content}):
        yield _Fault(path, _explain(describe_scalar_rule(field), value))


def describe_scalar_rule(field: FieldDescriptor) -> str:
    """Return the rule for one value of a field that is no message, such as `must be a text`; bytes are base64."""
    if field.enum_type is not None:
        return f"must be one of {', '.join(sorted(value.name for value in field.enum_type.values))}"
    if limits := _WHOLE_NUMBERS.get(field.cpp_type):
        return f"must be a whole number from {limits[0]} to {limits[1]}"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return "must be true or false"
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "must be base64"
    return "must be a text" if field.type == FieldDescriptor.TYPE_STRING else "must be a number"


def _explain(rule: str, value: Any) -> str:
    return f"{rule} (got {describe_value(value)})"


def _find_field(kind: Descriptor, name: str) -> FieldDescriptor | None:
    return kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)


def _can_parse(kind: Descriptor, value: Any) -> bool:
    try:
        json_format.ParseDict(value, GetMessageClass(kind)())
    except _CANNOT_PARSE:
        return False
    return True
