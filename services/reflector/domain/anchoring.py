"""Finds the steps that lessons refer to when the lessons name none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import fsum

from libs.trajectories.excerpts import shorten_middle
from services.reflector.domain.trajectory import Step

_READ_CHARS = 3_000
_MIN_SHARED = 2
_MAX_STEPS_OF_A_WORD = 50
"""A word that occurs in more steps than this is ignored."""
_WORD = re.compile(r"[^\W_]{3,}|[\u3041-\u30ff\u3400-\u9fff]{2}")


def find_nearest_steps(texts: Sequence[str], steps: Sequence[Step]) -> list[int | None]:
    """Return for each text the index of the step that shares most words with it, weighted by rarity; None if none does.

    The steps are read once for all texts.
    """
    wanted = [_split_words(text) for text in texts]
    steps_by_word: dict[str, list[int]] = {word: [] for words in wanted for word in words}
    for step in steps:
        for word in _split_words(_collect_text(step)) & steps_by_word.keys():
            steps_by_word[word].append(step.index)
    return [_find_nearest(words, steps_by_word) for words in wanted]


def _find_nearest(words: set[str], steps_by_word: dict[str, list[int]]) -> int | None:
    shares: dict[int, list[float]] = {}
    for word in words:
        if len(steps_by_word[word]) <= _MAX_STEPS_OF_A_WORD:
            for index in steps_by_word[word]:
                shares.setdefault(index, []).append(1 / len(steps_by_word[word]))
    # Sets are ordered differently in each process; fsum gives the same sum in any order.
    weights = {index: fsum(share) for index, share in shares.items() if len(share) >= _MIN_SHARED}
    return max(sorted(weights), key=weights.__getitem__, default=None)


def _split_words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _collect_text(step: Step) -> str:
    calls = " ".join(f"{call.name} {call.arguments[:_READ_CHARS]}" for call in step.tool_calls[:8])
    return f"{shorten_middle(step.content, _READ_CHARS)} {calls}"
