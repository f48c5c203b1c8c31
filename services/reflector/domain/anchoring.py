"""Finds the steps that lessons speak of when the lessons do not say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import fsum

from services.reflector.domain.excerpts import ends
from services.reflector.domain.trajectory import Step

_READ_CHARS = 3_000
_MIN_SHARED = 2
_MAX_STEPS_OF_A_WORD = 50
"""A word of more steps than this points to none of them."""
_WORD = re.compile(r"[^\W_]{3,}|[\u3041-\u30ff\u3400-\u9fff]{2}")


def nearest_steps(texts: Sequence[str], steps: Sequence[Step]) -> list[int | None]:
    """For each text the index of the step that shares most words with it, rare words counting more; None if none does.

    The steps are read once for all texts.
    """
    wanted = [_words(text) for text in texts]
    places: dict[str, list[int]] = {word: [] for words in wanted for word in words}
    for step in steps:
        for word in _words(_spoken(step)) & places.keys():
            places[word].append(step.index)
    return [_nearest(words, places) for words in wanted]


def _nearest(words: set[str], places: dict[str, list[int]]) -> int | None:
    shares: dict[int, list[float]] = {}
    for word in words:
        if len(places[word]) <= _MAX_STEPS_OF_A_WORD:
            for index in places[word]:
                shares.setdefault(index, []).append(1 / len(places[word]))
    # fsum, because the order of a set differs between processes and the sum must not.
    weights = {index: fsum(share) for index, share in shares.items() if len(share) >= _MIN_SHARED}
    return max(sorted(weights), key=weights.__getitem__, default=None)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _spoken(step: Step) -> str:
    calls = " ".join(f"{call.name} {call.arguments[:_READ_CHARS]}" for call in step.tool_calls[:8])
    return f"{ends(step.content, _READ_CHARS)} {calls}"
