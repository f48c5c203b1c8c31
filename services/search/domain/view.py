"""One version of an index, as readers see it: it never changes and needs no lock.

Scores are computed over the candidates only (S-13): a filter changes how many entries there are, how long they are on
average and how common a term is, and all of that is counted for the filter at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple

import numpy as np

from services.search.domain.bm25 import Variant
from services.search.domain.fusion import Floats, Fusion, Int64s, RankedRows
from services.search.domain.items import Items
from services.search.domain.loops import (
    NUMPY_LOOPS,
    Loops,
    VectorRows,
    Words,
    highest,
    rank_scored,
    score_words_of,
)
from services.search.domain.neighbours import TOLERATED_SHARE, BuildNeighbours, Neighbours
from services.search.domain.postings import Int32s, Mask, PostingsView
from services.search.domain.query import Filter, ItemT, Ranking, Results, TermScore
from services.search.domain.vectors import Float32s, inner_products

REMEMBERED_FILTERS = 32
POOL = 256
"""Rows that a preselecting query scores of those nearest and of those best by words; four times `count` at least."""
NO_LIMIT = int(np.iinfo(np.int64).max)


@dataclass
class LoopsInUse:
    """The loops of all indexes; faster ones take their place once they are loaded."""

    loops: Loops = NUMPY_LOOPS


class Rules(NamedTuple):
    """How an index ranks. With more than `exact_limit` candidates only a pool of them is scored."""

    variant: Variant
    computing: LoopsInUse
    exact_limit: int = NO_LIMIT
    build_neighbours: BuildNeighbours | None = None


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows a filter admits in one version; a mask of None admits all of them."""

    view: IndexView[Any]
    mask: Mask | None
    count: int
    average_length: float

    @cached_property
    def average_idf(self) -> float:
        """Return the mean idf of all distinct terms of the candidates, before the floor (S-21)."""
        holding = self.view.words.count_rows(self.mask)
        return float(self.view.rules.variant.idf(self.count, holding[holding > 0]).mean())

    @cached_property
    def selection(self) -> Any:
        """Return the candidates as the view's neighbours select them."""
        neighbours = self.view.neighbours
        return None if neighbours is None else neighbours.select(self.mask)


@dataclass(frozen=True, eq=False)
class IndexView(Generic[ItemT]):
    """The rows of an index at one moment. Its arrays, and what they refer to, are never written again.

    ``alive`` says which of them are entries; ``live`` is how many, ``total_length`` how many terms these have.
    ``revision`` is the writer's own number for the state, for example the revision of a playbook.
    """

    revision: int
    live: int
    total_length: int
    items: Items[ItemT]
    vectors: VectorRows
    alive: Mask
    confidence: Floats
    lengths: Int32s
    words: PostingsView
    facets: PostingsView
    neighbours: Neighbours | None
    rules: Rules
    _candidates: dict[Filter, Candidates] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return how many rows there are, dead ones included."""
        return len(self.alive)

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return int(self.vectors.units.shape[1])

    def count_candidates(self, admitted: Filter) -> int:
        """Return how many entries the filter lets pass (S-09, S-10)."""
        return self.candidates(admitted).count

    def candidates(self, admitted: Filter) -> Candidates:
        """Return the rows that `admitted` lets pass (S-09, S-10), and remember them."""
        known = self._candidates.get(admitted)
        if known is None:
            known = self._select(admitted)
            if len(self._candidates) < REMEMBERED_FILTERS:
                self._candidates[admitted] = known
        return known

    def search(
        self,
        terms: Sequence[str],
        query: Float32s,
        admitted: Filter,
        fusion: Fusion,
        count: int,
        explain: bool = False,
    ) -> Ranking[ItemT]:
        """Return the `count` best entries for the query's terms and its vector (unit length or zero, shape (d,)).

        With `explain` each result also says which terms it holds.
        """
        candidates = self.candidates(admitted)
        if not candidates.count:
            return Ranking(alpha=fusion.alpha)
        words = self._weigh(terms, candidates)
        preselected = candidates.count > self.rules.exact_limit and self._is_covered()
        if preselected:
            ranked = self._rank_pool(words, query, candidates, fusion, count)
        else:
            loops = self.rules.computing.loops
            ranked = loops.rank_rows(self.vectors, words, query, candidates.mask, fusion, count)
        matched = _matched_terms(self._known(terms), words, ranked.rows) if explain else ()
        results = Results(self.items.get_all(ranked.rows.tolist()), ranked.scores, matched)
        return Ranking(results, candidates.count, fusion.alpha, preselected)

    def _is_covered(self) -> bool:
        """Return whether the neighbours know nearly all rows."""
        return self.neighbours is not None and self.rows - self.neighbours.covered <= self.rows // TOLERATED_SHARE

    def _rank_pool(
        self, words: Words, query: Float32s, candidates: Candidates, fusion: Fusion, count: int
    ) -> RankedRows:
        """Return the best of the nearest rows, of the best by words and of the rows that neighbours do not know yet.

        The farthest row is among them: min-max needs to know how low scores go.
        """
        assert self.neighbours is not None
        size = max(POOL, 4 * count)
        recent = np.arange(self.neighbours.covered, self.rows)
        if candidates.mask is not None:
            recent = recent[candidates.mask[recent]]
        pool = np.unique(
            np.concatenate(
                [
                    self.neighbours.search(query, size, candidates.selection),
                    self.rules.computing.loops.best_by_words(words, candidates.mask, size),
                    highest(inner_products(self.vectors.units[recent], query), recent, size),
                ]
            )
        )
        bm25 = score_words_of(words, pool)[1].sum(axis=0)
        ranked = rank_scored(self.vectors.units[pool], query, bm25, self.vectors.order[pool], fusion, count)
        return ranked._replace(rows=pool[ranked.rows])

    def _known(self, terms: Sequence[str]) -> list[str]:
        """Return the distinct terms that have a list, in order."""
        return [term for term in dict.fromkeys(terms) if self.words.numbers([term])]

    def _weigh(self, terms: Sequence[str], candidates: Candidates) -> Words:
        """Return the lists of the query's distinct known terms, with what each weighs (S-20 to S-24)."""
        postings, variant = self.words, self.rules.variant
        numbers = postings.numbers(terms) if candidates.average_length else []
        distinct = list(dict.fromkeys(numbers))
        regions = postings.regions.take(distinct, axis=0) if distinct else _NO_REGIONS
        if candidates.mask is None:
            holding = regions[:, 1]
        else:
            holding = self.rules.computing.loops.count_admitted(postings.rows, regions, candidates.mask)
        weights = variant.idf(candidates.count, holding)
        if variant.floored and len(weights) and weights.min() < 0.0:
            weights[weights < 0.0] = variant.epsilon * candidates.average_idf
        if len(distinct) < len(numbers):
            weights *= [numbers.count(number) for number in distinct]
        average = candidates.average_length or 1.0
        return Words(
            postings.rows,
            postings.counts,
            regions,
            weights * variant.gain,
            self.lengths,
            variant.k1 * (1.0 - variant.b),
            variant.k1 * variant.b / average,
        )

    def _select(self, admitted: Filter) -> Candidates:
        mask = None if self.live == self.rows else self.alive
        if admitted.min_confidence > 0.0:
            mask = _both(mask, self.confidence >= admitted.min_confidence)
        for name, values in admitted.facets():
            mask = _both(mask, self._holding(name, values))
        count = self.rows if mask is None else int(np.count_nonzero(mask))
        if count == self.live:
            total, mask = self.total_length, None if count == self.rows else mask
        else:
            total = int(self.lengths[mask].sum())
        return Candidates(self, mask, count, total / count if count else 0.0)

    def _holding(self, name: str, values: Sequence[str]) -> Mask:
        mask = np.zeros(self.rows, np.bool_)
        for value in values:
            mask[self.facets.rows_of(facet(name, value))] = True
        return mask


_NO_REGIONS = np.empty((0, 2), np.int64)


def facet(name: str, value: str) -> str:
    """Return the term under which entries with this attribute are listed; the name of the section is empty."""
    return f"{name}\0{value}"


def _both(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else mask & other


def _matched_terms(names: Sequence[str], words: Words, rows: Int64s) -> list[tuple[TermScore, ...]]:
    """Return the terms that each row holds, with their part of its raw BM25, in the order of the query."""
    held, scores = score_words_of(words, rows)
    return [
        tuple(TermScore(names[i], float(scores[i, place])) for i in np.flatnonzero(held[:, place]).tolist())
        for place in range(len(rows))
    ]
