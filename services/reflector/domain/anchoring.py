"""Finds the step a lesson speaks of when the lesson does not say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.reflector.domain.excerpts import ends
from services.reflector.domain.trajectory import Step

_READ_CHARS = 3_000
_MIN_SHARED = 2
_WORD = re.compile(r"[^\W_]{3,}|[\u3041-\u30ff\u3400-\u9fff]{2}")


def nearest_step(text: str, steps: Sequence[Step]) -> int | None:
    """The index of the step that shares most words with `text`, words of few steps counting more; None if none does."""
    wanted = _words(text)
    shared = [(step.index, wanted & _words(_spoken(step))) for step in steps]
    frequency: dict[str, int] = {}
    for _, words in shared:
        for word in words:
            frequency[word] = frequency.get(word, 0) + 1
    scored = [
        (sum(1 / frequency[word] for word in words), index) for index, words in shared if len(words) >= _MIN_SHARED
    ]
    return max(scored, key=lambda pair: (pair[0], -pair[1]))[1] if scored else None


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _spoken(step: Step) -> str:
    calls = " ".join(f"{call.name} {call.arguments[:_READ_CHARS]}" for call in step.tool_calls[:8])
    return f"{ends(step.content, _READ_CHARS)} {calls}"
