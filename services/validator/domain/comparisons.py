"""Comparisons of two submissions by a judge, and the ranking of the contestants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from chassis.errors import Violation
from services.validator.domain.errors import ComparisonsInvalid

MAX_CONTESTANTS = 200
"""The time of a ranking grows with the cube of this; with 20,000 comparisons a core needs a few seconds."""


class Preference(StrEnum):
    """The answer of a judge; UNMEASURED if there is none."""

    FIRST = "first"
    SECOND = "second"
    TIE = "tie"
    UNMEASURED = "unmeasured"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison by a judge, with the order of the submissions; lengths are in characters.

    `task_id` names the task both answered; comparisons of one task are not independent. Empty: a task of its own.
    """

    first_id: str
    second_id: str
    preference: Preference
    first_length: int = 0
    second_length: int = 0
    task_id: str = ""

    def __post_init__(self) -> None:
        if self.first_id == self.second_id:
            raise ComparisonsInvalid(f"contestant '{self.first_id}' is compared with itself")


def refuse_too_many_contestants(field: str, ids: Iterable[str]) -> None:
    """Raise ComparisonsInvalid if there are more than MAX_CONTESTANTS."""
    count = len(set(ids))
    if count > MAX_CONTESTANTS:
        rule = f"must name at most {MAX_CONTESTANTS} contestants"
        raise ComparisonsInvalid(
            f"{field} {rule} (now {count:,})", violations=[Violation(field, f"{rule} (now {count:,})")]
        )


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """The terms of the fitted model; `confidence_level` is the coverage of the intervals."""

    position_term: bool = True
    length_term: bool = True
    confidence_level: float = 0.95


@dataclass(frozen=True, slots=True)
class Rating:
    """Strength of a contestant in logits, all strengths summing to 0, with its interval; rank from 1."""

    id: str
    strength: float
    lower: float
    upper: float
    rank: int


@dataclass(frozen=True, slots=True)
class ComparisonRanking:
    """Ratings by rank, and the judge's biases in logits: for being first, and per natural log of the length ratio."""

    ratings: tuple[Rating, ...]
    position_term: float | None
    length_term: float | None
    measured: int
    unmeasured: int
