"""Find the field of a request with a value that the message does not take; its error names field, value and rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from chassis.errors import InvalidArgument, Violation, shorten
from chassis.field_errors import describe_value
from chassis.json_faults import describe_scalar_rule

_MAX_RULE_CHARS = 300


def build_field_error(kind: type[Message], fields: Mapping[str, Any], error: Exception) -> InvalidArgument:
    """Return the error for fields of which a message of this kind cannot be made; `error` is that of protobuf."""
    violation = _find_violation(kind, fields, "")
    if violation is None:
        return InvalidArgument(str(error))
    is_rule = violation.description.startswith(("must ", "has "))
    message = f"{violation.field}{'' if is_rule else ':'} {violation.description}"
    return InvalidArgument(message, violations=[violation])


def _find_violation(kind: type[Message], fields: Mapping[str, Any], path: str) -> Violation | None:
    """Return the violation of the first wrong field, at any depth; None if each field alone is right."""
    descriptor: Any = kind.DESCRIPTOR
    for name, value in fields.items():
        if error := _find_error(kind, name, value):
            field: FieldDescriptor | None = descriptor.fields_by_name.get(name)
            if field is None:
                return Violation(f"{path}{name}", str(error))
            return _find_field_violation(kind, field, value, f"{path}{name}", error)
    return None


def _find_error(kind: type[Message], name: str, value: Any) -> TypeError | ValueError | None:
    try:
        kind(**{name: value})
    except (TypeError, ValueError) as error:
        return error
    return None


def _find_field_violation(
    kind: type[Message], field: FieldDescriptor, value: Any, path: str, error: Exception
) -> Violation:
    """Return the violation of the first wrong item of a list, or of the first wrong field of a message."""
    if not field.is_repeated:
        return _find_value_violation(field, value, path, error)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for position, item in enumerate(value):
            if item_error := _find_error(kind, field.name, [item]):
                return _find_value_violation(field, item, f"{path}[{position}]", item_error)
    if isinstance(error, ValueError) or isinstance(value, Sequence | Mapping):
        return Violation(path, str(error))
    return Violation(path, f"must be a list (got {describe_value(value)})")


def _find_value_violation(field: FieldDescriptor, value: Any, path: str, error: Exception) -> Violation:
    if field.message_type is not None and isinstance(value, Mapping):
        inner = _find_violation(GetMessageClass(field.message_type), value, f"{path}.")
        return inner or Violation(path, str(error))
    if isinstance(error, UnicodeError):
        return Violation(path, "has characters that are not valid in UTF-8")
    if isinstance(error, ValueError):
        return Violation(path, str(error))
    if field.message_type is not None:
        rule = f"must be a {field.message_type.name}, or a dict of its fields"
    else:
        rule = "must be bytes" if field.type == FieldDescriptor.TYPE_BYTES else describe_scalar_rule(field)
    return Violation(path, shorten(f"{rule} (got {describe_value(value)})", _MAX_RULE_CHARS))
