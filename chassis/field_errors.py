"""Describe the errors of pydantic in the words of hansei: the field, the value and the rule."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from chassis.errors import shorten

_RULES = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "json_invalid": "is not JSON: {error}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must have {min_length} or more items, not {actual_length}",
    "too_long": "must have {max_length} or fewer items, not {actual_length}",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "value_error": "{error}",
    "assertion_error": "{error}",
}

DATASET_NAME_RULE = "must be 1 to 128 of the characters A-Z, a-z, 0-9, _ and -"
"""C-13; the messages of errors about names of datasets, which the specification fixes, do not state it."""


def build_field_path(location: Sequence[int | str]) -> str:
    """Return the path of a field, such as `bullets[3].section`; empty for the whole value."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def describe_error(error: ErrorDetails, whole: str) -> str:
    """Return field, value and rule, such as `bullets: 7 must be a list`; `whole` names the value without a field."""
    value = "" if error["type"] in ("missing", "json_invalid", "value_error") else f"{describe_value(error['input'])} "
    return f"{build_field_path(error['loc']) or whole}: {value}{describe_rule(error)}"


def describe_rule(error: ErrorDetails) -> str:
    """Return the rule that a value breaks, such as `must be a list`."""
    rule = _RULES.get(error["type"])
    if rule is not None:
        return rule.format_map(error.get("ctx", {}))
    message = re.sub("Value error, |Assertion failed, | after validation", "", error["msg"])
    message = re.sub("(?:Input|Value|String|List|Dictionary|Tuple) should ", "must ", message)
    return re.sub("a valid ", "a ", message)


def describe_value(value: Any) -> str:
    """Return a rejected value for a message, shortened, in the words of JSON."""
    match value:
        case str():
            return repr(shorten(value))
        case None | bool() | int() | float():
            return json.dumps(value)
        case bytes():
            return f"{len(value)} bytes"
        case Mapping():
            return "an object"
        case Sequence():
            return "a list"
        case _:
            return f"a value of the type {type(value).__name__}"
