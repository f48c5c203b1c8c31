"""Quoting of untrusted text in prompts: it can end neither a line, nor a block, nor a list."""

from __future__ import annotations

import json
import re

from chassis.errors import shorten

MAX_LINE_CHARS = 1000

_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069`]")
_PLAIN_ID = re.compile(r"[^\s,\"'`\\【】{}\[\]]{1,128}")


def escape_to_line(text: str) -> str:
    """Return the text on one line of at most `MAX_LINE_CHARS`; characters that break or reorder lines are escaped."""
    return shorten(_BREAKS.sub(_escape, text), MAX_LINE_CHARS)


def encode_to_line(value: object) -> str:
    """Return the value as JSON on one line without a backtick, so that no fence can end inside it."""
    return _BREAKS.sub(_escape, json.dumps(value, ensure_ascii=False))


def format_id(node_id: str) -> str:
    """Return an id for a list of ids: unchanged if that is unambiguous, else as JSON text."""
    return node_id if _PLAIN_ID.fullmatch(node_id) else encode_to_line(node_id)


def fence_text(text: str) -> str:
    """Return the text in a code fence longer than any run of backticks inside it (CommonMark 0.31, section 4.5)."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
