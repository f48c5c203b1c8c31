"""What is asked of search and what it answers.

What every query makes anew are tuples: they are made in a third of the time of frozen dataclasses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from services.search.domain.bullet import Bullet
from services.search.domain.errors import MinConfidenceNotANumber, TopKTooSmall

DEFAULT_TOP_K = 10
DEFAULT_MIN_CONFIDENCE = 0.3

ItemT = TypeVar("ItemT")

Attributes = tuple[tuple[str, str], ...]
"""Names and values, each name once."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries are candidates (S-09, S-10): empty `sections` and `attributes` filter nothing.

    ``attributes`` must all be equal; ``min_confidence`` is inclusive, in 0..1.
    """

    sections: frozenset[str] = frozenset()
    min_confidence: float = 0.0
    attributes: Attributes = ()

    def __post_init__(self) -> None:
        if math.isnan(self.min_confidence):
            raise MinConfidenceNotANumber


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A question to a playbook (S-01), or to a collection, whose documents have `attributes` that must be equal.

    ``filter`` says which candidates it admits. Raises `TopKTooSmall`, `MinConfidenceNotANumber` (S-02).
    """

    query_text: str
    top_k: int = DEFAULT_TOP_K
    section_filter: list[str] | None = None
    min_confidence: float = DEFAULT_MIN_CONFIDENCE
    attributes: Attributes = ()
    filter: Filter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise TopKTooSmall
        admitted = Filter(frozenset(self.section_filter or ()), self.min_confidence, self.attributes)
        object.__setattr__(self, "filter", admitted)


@dataclass(frozen=True, slots=True)
class TermScore:
    """A term of the query that an item holds, and its part of the item's raw BM25."""

    term: str
    score: float


class Scored(NamedTuple, Generic[ItemT]):
    """An item with its scores: scaled to 0..1 over the candidates of one query, and raw (S-03, S-04)."""

    item: ItemT
    vector_score: float
    bm25_score: float
    combined_score: float
    raw_cosine: float = 0.0
    raw_bm25: float = 0.0
    terms: tuple[TermScore, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A bullet that was found (S-03, S-04)."""

    bullet: Bullet
    vector_score: float
    bm25_score: float
    combined_score: float
    raw_cosine: float = 0.0
    raw_bm25: float = 0.0


class Ranking(NamedTuple, Generic[ItemT]):
    """The best items first, out of `candidates` entries that passed the filter.

    ``alpha`` is the weight of the vector score that was used; ``preselected`` says that an approximate index chose the
    pool, so the answer may differ from the exact one.
    """

    results: Sequence[Scored[ItemT]] = ()
    candidates: int = 0
    alpha: float = 0.0
    preselected: bool = False
