"""Parses the reply of a model: its text (G-07) and the JSON object in it (G-11)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from chassis.errors import shorten
from chassis.json_texts import parse_strict_json, repair_surrogates, replace_nul
from libs.llm.errors import ReplyNotStructured

MAX_REPLY_CHARS = 4_000_000
_FENCE = "```"
_ESCAPE = re.compile(r"\\(?:u0000|.)", re.DOTALL)


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

    An escaped U+0000 becomes U+FFFD, as in `read_text`. Raise ReplyNotStructured if none of these parses as an object.
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
    """Return the JSON value of `candidate`; None if it is not JSON or has no UTF-8 form."""
    try:
        # Models write line breaks into strings, which strict JSON does not allow.
        value = parse_strict_json(_replace_escaped_nul(candidate), allow_control_characters=True)
        if "\\ud" in candidate.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return value


def _replace_escaped_nul(text: str) -> str:
    if "\\u0000" not in text:
        return text
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[0] == "\\u0000" else found[0], text)
