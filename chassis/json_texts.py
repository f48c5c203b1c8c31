"""Texts of JSON values, and the values of JSON texts."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def format_as_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON, in which an object of Python is its `str`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def parse_strict_json(text: str | bytes, *, allow_control_characters: bool = False) -> Any:
    """Return the value of a JSON text. NaN and Infinity, which `json.loads` accepts, are refused.

    Raises ValueError, and RecursionError for deep nesting. With `allow_control_characters`, strings may contain them.
    """
    return json.loads(text, parse_constant=_refuse_constant, strict=not allow_control_characters)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
