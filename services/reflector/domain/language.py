"""Detects whether lessons for a trajectory are written in Japanese or in English."""

from __future__ import annotations

import re
from typing import Literal

from services.reflector.domain.trajectory import Trajectory

Language = Literal["ja", "en"]

_KANA = re.compile(r"[\u3041-\u30ff]")
_JAPANESE = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]+")
_READ_CHARS = 2_000
_READ_STEPS = 20
_JAPANESE_SHARE = 0.3
"""Share of Japanese characters among Japanese characters and Latin words; a word carries as much as two characters."""


def detect_language(trajectory: Trajectory) -> Language:
    """Return Japanese if people and agents write it (kana, not only Chinese characters), else English."""
    spoken = [step.content for step in trajectory.transcript if step.role in ("user", "assistant")][:_READ_STEPS]
    texts = [trajectory.query, trajectory.generated_answer, *spoken]
    sample = "\n".join(text[:_READ_CHARS] for text in texts)
    japanese = len(_JAPANESE.findall(sample))
    words = len(_LATIN_WORD.findall(sample))
    return "ja" if _KANA.search(sample) and japanese >= _JAPANESE_SHARE * (japanese + words) else "en"
