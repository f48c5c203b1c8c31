"""Words that reports must not use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class PhraseFinder(Protocol):
    """Tells whether a text uses a forbidden phrase."""

    def occurs_in(self, text: str) -> bool:
        """True when the text uses one."""
        ...


@dataclass(frozen=True, slots=True)
class LiteralPhrases:
    """Finds phrases as plain substrings."""

    phrases: Sequence[str]

    def occurs_in(self, text: str) -> bool:
        """True when one of the phrases is a substring of the text."""
        for phrase in self.phrases:  # noqa: SIM110 - a generator doubles the time of the hottest check
            if phrase in text:
                return True
        return False


ORGANIZER_PHRASES = LiteralPhrases(("べき", "してください", "が必要です"))
"""Words that command (V-17)."""

ADVISOR_WORDS = LiteralPhrases(("ベスト", "推奨", "正解", "すべき"))
"""Words that decide for the user (V-27)."""
