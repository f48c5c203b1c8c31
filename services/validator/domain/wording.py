"""Forbidden words of reports, and the two modes of finding them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Wording(Enum):
    """The mode of the search for forbidden words."""

    LITERAL = "literal"
    LINGUISTIC = "linguistic"


CheckTime = Callable[[], None]
"""Raises when the time of the search is over; long searches call it again and again."""


def allow_any_time() -> None:
    """Set no limit."""


class PhraseFinder(Protocol):
    """A finder of forbidden phrases."""

    def occurs_in(self, text: str, check_time: CheckTime = allow_any_time) -> bool:
        """Return whether the text uses one of the words. Raises what `check_time` raises."""


class PhraseFinders(Protocol):
    """A source of finders for any phrases."""

    def get_finder(self, phrases: Sequence[str]) -> PhraseFinder:
        """Return the finder of these phrases."""


@dataclass(frozen=True, slots=True)
class LiteralPhrases:
    """Finds phrases as plain substrings."""

    phrases: Sequence[str]

    def occurs_in(self, text: str, check_time: CheckTime = allow_any_time) -> bool:
        """Return whether one of the phrases is a substring of the text."""
        check_time()
        for phrase in self.phrases:  # noqa: SIM110 - a generator doubles the time of the hottest check
            if phrase in text:
                return True
        return False


class LiteralFinders:
    """Finders of plain substrings: the mode of the specification and the default."""

    def get_finder(self, phrases: Sequence[str]) -> PhraseFinder:
        """Return the finder of these phrases."""
        return LiteralPhrases(phrases)


LITERAL = LiteralFinders()

ORGANIZER_PHRASES = ("べき", "してください", "が必要です")
"""Words that command (V-17)."""

ADVISOR_WORDS = ("ベスト", "推奨", "正解", "すべき")
"""Words that decide for the user (V-27)."""
