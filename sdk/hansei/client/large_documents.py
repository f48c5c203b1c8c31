"""Shorten the longest texts of a JSON document that is too large for one call."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

_LIMITS = tuple(500_000 >> halvings for halvings in range(10))


@dataclass(frozen=True, slots=True)
class ShortenedDocument:
    """A document in which `texts` texts have at most `limit` characters and a note of the omitted characters."""

    content: bytes
    texts: int
    limit: int


def shorten_texts(content: bytes, most_bytes: int) -> ShortenedDocument | None:
    """Return the document, or the JSON lines, in at most `most_bytes`; None if that is no JSON, or does not suffice.

    The limit of a text is the greatest of 500,000, 250,000, 125,000, … characters with which the document fits. The
    beginning and the end of a text stay.
    """
    try:
        values = _parse(content)
    except (ValueError, RecursionError):
        return None
    longest_text = math.inf
    for limit in _LIMITS:
        if longest_text <= limit:
            continue  # it shortens nothing, so the document would be too large again
        shortening = _Shortening(limit)
        lines = [json.dumps(shortening.apply(value), ensure_ascii=False) for value in values]
        shortened = "\n".join(lines).encode("utf-8", "replace")
        if len(shortened) <= most_bytes:
            return ShortenedDocument(shortened, shortening.texts, limit)
        longest_text = shortening.longest_text
    return None


def _parse(content: bytes) -> list[Any]:
    try:
        return [json.loads(content)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in content.splitlines() if line.strip()]


class _Shortening:
    """Shortens the texts inside of JSON values, counts them, and measures the longest text before."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.texts = 0
        self.longest_text = 0

    def apply(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._shorten(value)
        if isinstance(value, dict):
            return {key: self.apply(item) for key, item in value.items()}
        return [self.apply(item) for item in value] if isinstance(value, list) else value

    def _shorten(self, text: str) -> str:
        self.longest_text = max(self.longest_text, len(text))
        if len(text) <= self._limit:
            return text
        self.texts += 1
        half = self._limit // 2
        return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
