"""Validation of requests by the rules of the contract, with `protovalidate`."""

from __future__ import annotations

from typing import Any

import protovalidate
from google.protobuf.message import Message

from chassis.errors import MAX_VALUE_CHARS, InvalidArgument, Violation, shorten
from chassis.field_errors import describe_value

REASON = "INVALID_REQUEST"
_CUSTOM_RULES = {"cel", "cel_expression"}
# The contracts exclude only the value 0 of an enum, which an omitted field has.
_MESSAGES = {"enum.not_in": "is required"}
_validator = protovalidate.Validator()


def check(message: Message) -> None:
    """Raise `InvalidArgument` if the message breaks its contract, with the text of the first violation."""
    found = [_explain(violation) for violation in _validator.collect_violations(message)]
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
