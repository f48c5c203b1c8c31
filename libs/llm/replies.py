"""Parses the reply of a model: its text (G-07) and the JSON object in it (G-11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from chassis.errors import shorten
from chassis.json_texts import parse_strict_json, repair_surrogates, replace_nul
from libs.llm.errors import ReplyNotStructured

MAX_REPLY_CHARS = 4_000_000
_FENCE = "```"
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    r"|(?P<unusable>\\u0000|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\.",
    re.DOTALL,
)


def read_text(message: object) -> str:
    """Return the text of a message: its `content`, or that content's text parts joined without separator (G-07).

    U+0000, which stores refuse, and an unpaired surrogate become U+FFFD.
    """
    content = getattr(message, "content", message)
    parts = content if isinstance(content, list) else [content]
    return replace_nul(repair_surrogates("".join(_get_part_text(part) for part in parts)))


def _get_part_text(part: object) -> str:
    if isinstance(part, dict) and part.get("type", "text") == "text":
        part = part.get("text")
    return part if isinstance(part, str) else ""


def extract_json_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a reply (G-11): the whole text, its first fenced block, or first `{` to last `}`.

    As in `read_text`, U+0000 and half of a surrogate pair become U+FFFD, here where they are escaped.
    Raise ReplyNotStructured if none of these parses as an object.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise ReplyNotStructured(f"the reply has {len(text)} characters, more than {MAX_REPLY_CHARS}")
    for candidate in _iterate_json_candidates(text):
        found = _parse_json(candidate)
        if isinstance(found, dict):
            return found
    raise ReplyNotStructured(f"no JSON object in the reply: {shorten(text)!r}")


def _iterate_json_candidates(text: str) -> Iterator[str]:
    yield text
    _, fence, rest = text.partition(_FENCE)
    block, closing, _ = rest.partition(_FENCE)
    if fence and closing:
        yield _remove_language(block)
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        yield text[first : last + 1]


def _remove_language(block: str) -> str:
    first_line, newline, rest = block.partition("\n")
    return rest if newline and first_line.strip().isalnum() else block


def _parse_json(candidate: str) -> object:
    """Return the JSON value of `candidate`; None if it is not JSON."""
    try:
        # Models write line breaks into strings, which strict JSON does not allow.
        return parse_strict_json(_replace_unusable_escapes(candidate), allow_control_characters=True)
    except (ValueError, RecursionError):
        return None


def _replace_unusable_escapes(text: str) -> str:
    if "\\u0000" not in text and "\\ud" not in text.lower():
        return text
    return _ESCAPE.sub(lambda found: "\\ufffd" if found["unusable"] else found[0], text)
