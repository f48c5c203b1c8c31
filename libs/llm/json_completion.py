"""Completes a JSON object that was cut: its complete parts are kept, the rest is dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

MAX_CUTS = 200
_CLOSING = {"{": "}", "[": "]"}


def complete_json(text: str) -> Iterator[str]:
    """Yield objects from the complete parts of a truncated one, longest first; at least one element of a list is whole.

    The text is cut only after an element of a list, or after a field of the outermost object.
    """
    start = text.find("{")
    if start < 0:
        return
    for end, open_brackets in reversed(deque(_find_cuts(text, start), MAX_CUTS)):
        yield text[start:end] + "".join(_CLOSING[bracket] for bracket in reversed(open_brackets))


def _find_cuts(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield the positions at which the text may end, with the brackets that are open there."""
    open_brackets = ""
    in_string = escaped = has_element = False
    for position in range(start, len(text)):
        character = text[position]
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            open_brackets += character
        elif character in "}]":
            open_brackets = open_brackets[:-1]
            if not open_brackets:
                return
            if open_brackets[-1] == "[":
                has_element = True
                yield position + 1, open_brackets
        elif character == "," and open_brackets:
            has_element |= open_brackets[-1] == "["
            if has_element and (open_brackets[-1] == "[" or len(open_brackets) == 1):
                yield position, open_brackets
