"""Words that reports must not use, and the two ways of looking for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Wording(Enum):
    """How forbidden words are looked for."""

    LITERAL = "literal"
    LINGUISTIC = "linguistic"


class PhraseFinder(Protocol):
    """Tells whether a text uses a forbidden phrase."""

    def occurs_in(self, text: str) -> bool:
        """True when the text uses one."""
        ...


class Words(Protocol):
    """A way of looking for phrases."""

    def finder(self, phrases: Sequence[str]) -> PhraseFinder:
        """The finder of these phrases."""
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


class LiteralWords:
    """Looks for phrases as plain substrings: the specification's way and the default."""

    def finder(self, phrases: Sequence[str]) -> PhraseFinder:
        """The finder of these phrases."""
        return LiteralPhrases(phrases)


LITERAL = LiteralWords()

ORGANIZER_PHRASES = ("べき", "してください", "が必要です")
"""Words that command (V-17)."""

ADVISOR_WORDS = ("ベスト", "推奨", "正解", "すべき")
"""Words that decide for the user (V-27)."""
