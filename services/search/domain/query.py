"""Queries, filters and rankings.

Objects that every query creates are tuples, which take a third of the time of frozen dataclasses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from services.search.domain.errors import MinConfidenceNotANumber, TopKTooSmall

DEFAULT_TOP_K = 10
DEFAULT_MIN_CONFIDENCE = 0.3

ItemT = TypeVar("ItemT")

Attributes = tuple[tuple[str, str], ...]
"""Names and values, each name once."""


class CandidateFilter(NamedTuple):
    """The filter of candidates (S-09, S-10); empty `sections` and `attributes` admit every entry.

    ``attributes`` must all be equal; ``min_confidence`` is inclusive, in 0..1. ``smoothed`` compares it with the
    smoothed confidence.
    """

    sections: frozenset[str] = frozenset()
    min_confidence: float = 0.0
    attributes: Attributes = ()
    smoothed: bool = False

    def list_facets(self) -> list[tuple[str, Sequence[str]]]:
        """Return the required attributes, each with its admitted values; the name of the section is empty."""
        facets: list[tuple[str, Sequence[str]]] = [(name, (value,)) for name, value in self.attributes]
        return [("", tuple(self.sections)), *facets] if self.sections else facets


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query on a playbook (S-01), or on a collection, whose documents must have the `attributes`.

    ``smoothed`` compares `min_confidence` with the smoothed confidence, as requests without a value of their own do.
    ``filter`` is computed from the other fields. Raises `TopKTooSmall`, `MinConfidenceNotANumber` (S-02).
    """

    query_text: str
    top_k: int = DEFAULT_TOP_K
    section_filter: list[str] | None = None
    min_confidence: float = DEFAULT_MIN_CONFIDENCE
    attributes: Attributes = ()
    smoothed: bool = False
    filter: CandidateFilter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise TopKTooSmall
        if math.isnan(self.min_confidence):
            raise MinConfidenceNotANumber
        sections = frozenset(self.section_filter) if self.section_filter else frozenset()
        admitted = CandidateFilter(sections, self.min_confidence, self.attributes, self.smoothed)
        object.__setattr__(self, "filter", admitted)


@dataclass(frozen=True, slots=True)
class TermScore:
    """A term of the query that an item contains, and its part of the item's raw BM25."""

    term: str
    score: float


class ScoredItem(NamedTuple, Generic[ItemT]):
    """An item with its scores: scaled to 0..1 over the candidates of one query, and raw (S-03, S-04)."""

    item: ItemT
    vector_score: float
    bm25_score: float
    combined_score: float
    raw_cosine: float = 0.0
    raw_bm25: float = 0.0
    terms: tuple[TermScore, ...] = ()


class Results(Sequence[ScoredItem[ItemT]]):
    """Items, best first, with their scores in columns; results are created on access.

    ``scores`` has a row for each score of `ScoredItem`, in its order, and a column for each item; ``terms`` has those
    of each item, or is empty when they were not requested.
    """

    __slots__ = ("items", "scores", "terms")

    def __init__(
        self, items: Sequence[ItemT], scores: NDArray[np.float64], terms: Sequence[tuple[TermScore, ...]] = ()
    ) -> None:
        self.items = items
        self.scores = scores
        self.terms = terms

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> ScoredItem[ItemT]: ...

    @overload
    def __getitem__(self, index: slice) -> Results[ItemT]: ...

    def __getitem__(self, index: int | slice) -> ScoredItem[ItemT] | Results[ItemT]:
        if isinstance(index, slice):
            return Results(self.items[index], self.scores[:, index], self.terms[index])
        terms = self.terms[index] if self.terms else ()
        return ScoredItem._make((self.items[index], *self.scores[:, index].tolist(), terms))

    def __iter__(self) -> Iterator[ScoredItem[ItemT]]:
        return map(ScoredItem._make, zip(self.items, *self.scores.tolist(), self.terms or repeat(()), strict=False))


class Ranking(NamedTuple, Generic[ItemT]):
    """The best items first, out of `candidates` entries that passed the filter.

    ``alpha`` is the weight of the vector score; ``preselected`` is true when an approximate index chose the rows to
    score, so that the ranking may differ from the exact one.
    """

    results: Results[ItemT] = Results((), np.empty((5, 0)))
    candidates: int = 0
    alpha: float = 0.0
    preselected: bool = False
