"""Texts of JSON values, and the values of JSON texts."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

from chassis.errors import shorten

MAX_NESTING = 200
"""Levels of objects and lists in the arguments and the results of calls: code that walks them has enough stack."""
MAX_INTEGER_DIGITS = 4300
"""Digits of an integer in a JSON text. Python converts no more: the time grows with the square of their number."""


class NestedTooDeeply(ValueError):
    """A JSON text is nested deeper than `MAX_NESTING` levels."""


def format_as_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON, in which an object of Python is its `str`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def has_surrogates(text: str) -> bool:
    """Return whether a text has half of a surrogate pair, which JSON can escape and UTF-8 cannot encode."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def repair_surrogates(text: str) -> str:
    """Return a text that UTF-8 can encode: two halves become their character, half of a pair becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def replace_nul(text: str) -> str:
    """Return a text that PostgreSQL can store: U+0000 becomes U+FFFD."""
    return text.replace("\0", "\ufffd")


def parse_shallow_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, and NestedTooDeeply regardless of the free stack."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise NestedTooDeeply(f"is nested deeper than {MAX_NESTING} levels") from None
    if text.count("{") + text.count("[") > MAX_NESTING and is_nested_too_deeply(value):
        raise NestedTooDeeply(f"is nested deeper than {MAX_NESTING} levels")
    return value


def is_nested_too_deeply(value: Any) -> bool:
    """Return whether objects and lists are nested in more than `MAX_NESTING` levels."""
    level = [value]
    for _ in range(MAX_NESTING + 1):
        containers = [
            item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)
        ]
        if not containers:
            return False
        level = [item for container in containers for item in container]
    return True


def parse_strict_json(
    text: str | bytes, *, allow_control_characters: bool = False, allow_repeated_names: bool = True
) -> Any:
    """Return the value of a JSON text. NaN and Infinity, which `json.loads` accepts, are refused.

    Of a name that an object repeats, the last value counts, unless `allow_repeated_names` is false.
    Raises ValueError, and RecursionError for deep nesting. With `allow_control_characters`, strings may contain them.
    """
    return json.loads(
        text,
        parse_constant=_refuse_constant,
        parse_int=parse_integer,
        object_pairs_hook=None if allow_repeated_names else _create_object,
        strict=not allow_control_characters,
    )


def parse_integer(text: str) -> int:
    """Return an integer of a JSON text. Raises ValueError if it has more than `MAX_INTEGER_DIGITS` digits."""
    digits = len(text.lstrip("-"))
    if digits > MAX_INTEGER_DIGITS:
        raise ValueError(f"an integer has {digits:,} digits, of which at most {MAX_INTEGER_DIGITS:,} are allowed")
    return int(text)


def _create_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these names and values. Raises ValueError if a name is repeated."""
    created = dict(pairs)
    if len(created) < len(pairs):
        repeated = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the name {shorten(repr(repeated))} more than once")
    return created


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
