"""An immutable version of an index, which readers use without a lock.

Scores are computed over the candidates only (S-13): the number of entries, their average length and the frequencies of
terms are counted for each filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple

import numpy as np

from services.search.domain.bm25 import Variant
from services.search.domain.fusion import Floats, Fusion, Int64s
from services.search.domain.items import Items
from services.search.domain.loops import (
    NUMPY_LOOPS,
    Loops,
    Refinement,
    VectorRows,
    WeightedTerms,
    score_rows,
    select_highest,
)
from services.search.domain.neighbours import TOLERATED_SHARE, BuildNeighbours, NeighbourIndex
from services.search.domain.postings import Int32s, Mask, PostingsView
from services.search.domain.query import CandidateFilter, ItemT, Ranking, Results, TermScore
from services.search.domain.sentences import choose_refined_count
from services.search.domain.vectors import Float32s, compute_inner_products

CACHED_FILTERS = 32
POOL = 256
"""Nearest rows, and best rows by words, that a preselecting query scores; at least four times `count`."""
NO_LIMIT = int(np.iinfo(np.int64).max)


@dataclass
class LoopsInUse:
    """The loops of all indexes, which faster ones replace when they are loaded."""

    loops: Loops = NUMPY_LOOPS


class RankingRules(NamedTuple):
    """The parameters of ranking. With more than `exact_limit` candidates only a pool of them is scored.

    ``sentence_weight``, from 0 on, is the share of a term's weight that it gains in the best sentence; 0 for none.
    """

    variant: Variant
    computing: LoopsInUse
    exact_limit: int = NO_LIMIT
    build_neighbours: BuildNeighbours | None = None
    sentence_weight: float = 0.0


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows a filter admits in one version; a mask of None admits all of them.

    The view that caches them is not referenced: in a cycle, a dropped index would stay until a garbage collection.
    """

    words: PostingsView
    variant: Variant
    neighbours: NeighbourIndex | None
    mask: Mask | None
    count: int
    average_length: float

    @cached_property
    def average_idf(self) -> float:
        """Return the mean idf of all distinct terms of the candidates, before the floor (S-21)."""
        counts = self.words.count_rows(self.mask)
        distinct, terms = np.unique(counts[counts > 0], return_counts=True)
        idfs = [self.variant.compute_idf(self.count, count) for count in distinct.tolist()]
        return float(np.average(idfs, weights=terms))

    @cached_property
    def selection(self) -> Any:
        """Return the candidates as a selection of the neighbour index."""
        return None if self.neighbours is None else self.neighbours.select(self.mask)


@dataclass(frozen=True, eq=False)
class IndexView(Generic[ItemT]):
    """The rows of an index at one revision. Its arrays never change.

    ``alive`` marks the rows that are entries; ``live`` is their number, ``total_length`` their number of terms.
    ``revision`` is the writer's number of the state, for example the revision of a playbook.
    """

    revision: int
    live: int
    total_length: int
    items: Items[ItemT]
    vectors: VectorRows
    alive: Mask
    confidence: Floats
    smoothed_confidence: Floats
    lengths: Int32s
    words: PostingsView
    facets: PostingsView
    neighbours: NeighbourIndex | None
    rules: RankingRules
    _candidates: dict[CandidateFilter, Candidates] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return the number of rows, dead ones included."""
        return len(self.alive)

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return int(self.vectors.units.shape[1])

    def count_candidates(self, admitted: CandidateFilter) -> int:
        """Return the number of entries that pass the filter (S-09, S-10)."""
        return self.select_candidates(admitted).count

    def select_candidates(self, admitted: CandidateFilter) -> Candidates:
        """Return the rows that pass the filter (S-09, S-10), from a cache."""
        candidates = self._candidates.get(admitted)
        if candidates is None:
            candidates = self._select(admitted)
            if len(self._candidates) < CACHED_FILTERS:
                self._candidates[admitted] = candidates
        return candidates

    def search(
        self,
        terms: Sequence[str],
        query: Float32s,
        admitted: CandidateFilter,
        fusion: Fusion,
        count: int,
        explain: bool = False,
    ) -> Ranking[ItemT]:
        """Return the `count` best entries for the query's terms and its vector (unit length or zero, shape (d,)).

        With `explain` each result lists the query's terms that it contains.
        """
        candidates = self.select_candidates(admitted)
        if not candidates.count:
            return Ranking(alpha=fusion.alpha)
        words = self._weigh(terms, candidates)
        loops, weight = self.rules.computing.loops, self.rules.sentence_weight
        # A bonus has no meaning for reciprocal ranks.
        is_refined = weight > 0.0 and fusion.method == "minmax" and len(words.weights) > 0
        refined_rows = choose_refined_count(count, candidates.count) if is_refined else 0
        refinement = Refinement(refined_rows, weight)
        preselected = candidates.count > self.rules.exact_limit and self._is_covered()
        if preselected:
            pool = self._select_pool(words, query, candidates, max(count, refined_rows))
            ranked = loops.rank_pool(self.vectors, words, query, pool, fusion, count, refinement)
        else:
            ranked = loops.rank_rows(self.vectors, words, query, candidates.mask, fusion, count, refinement)
        matched = _explain(self._select_indexed(terms), words, ranked.rows) if explain else ()
        results = Results(self.items.get_all(ranked.rows.tolist()), ranked.scores, matched)
        return Ranking(results, candidates.count, ranked.alpha, preselected)

    def _is_covered(self) -> bool:
        """Return whether the neighbour index covers nearly all rows."""
        return self.neighbours is not None and self.rows - self.neighbours.covered_rows <= self.rows // TOLERATED_SHARE

    def _select_pool(self, words: WeightedTerms, query: Float32s, candidates: Candidates, count: int) -> Int64s:
        """Return the nearest rows, the best by words, and the nearest rows outside the neighbour index, ascending.

        The farthest row is in the pool: min-max needs the lowest score.
        """
        assert self.neighbours is not None
        size = max(POOL, 4 * count)
        parts = [
            self.neighbours.search(query, size, candidates.selection),
            self.rules.computing.loops.select_best_by_words(words, candidates.mask, size),
        ]
        if self.neighbours.covered_rows < self.rows:
            recent = np.arange(self.neighbours.covered_rows, self.rows)
            if candidates.mask is not None:
                recent = recent[candidates.mask[recent]]
            parts.append(select_highest(compute_inner_products(self.vectors.units[recent], query), recent, size))
        return np.unique(np.concatenate(parts))

    def _select_indexed(self, terms: Sequence[str]) -> list[str]:
        """Return the distinct terms that have a posting list, in order."""
        return [term for term in dict.fromkeys(terms) if self.words.find_numbers([term])]

    def _weigh(self, terms: Sequence[str], candidates: Candidates) -> WeightedTerms:
        """Return the lists of the query's distinct terms with their weights (S-20 to S-24)."""
        postings, variant = self.words, self.rules.variant
        numbers = postings.find_numbers(terms) if candidates.average_length else []
        distinct = list(dict.fromkeys(numbers))
        regions = postings.regions.take(distinct, axis=0) if distinct else _NO_REGIONS
        document_counts = regions[:, 1]
        if candidates.mask is not None:
            document_counts = self.rules.computing.loops.count_admitted(postings.rows, regions, candidates.mask)
        # Plain numbers: a query has so few terms that calls of NumPy would take longer.
        times = [numbers.count(number) for number in distinct] if len(distinct) < len(numbers) else [1] * len(numbers)
        weights: list[float] = []
        absent = len(terms) - len(numbers)
        for count, repeated in zip(document_counts.tolist(), times, strict=True):
            idf = variant.compute_idf(candidates.count, count) if count else 0.0
            if idf < 0.0 and variant.floored:
                idf = variant.epsilon * candidates.average_idf
            weights.append(idf * repeated * variant.gain)
            absent += 0 if count else repeated
        total = sum(weights) + absent * variant.compute_idf(candidates.count, 0) * variant.gain
        average = candidates.average_length or 1.0
        return WeightedTerms(
            postings.rows,
            postings.counts,
            regions,
            np.array(weights),
            self.lengths,
            variant.k1 * (1.0 - variant.b),
            variant.k1 * variant.b / average,
            total / (1.0 + variant.k1),
            postings.sentences,
        )

    def _select(self, admitted: CandidateFilter) -> Candidates:
        mask = None if self.live == self.rows else self.alive
        if admitted.min_confidence > 0.0:
            confidence = self.smoothed_confidence if admitted.smoothed else self.confidence
            mask = _intersect(mask, confidence >= admitted.min_confidence)
        for name, values in admitted.list_facets():
            mask = _intersect(mask, self._mask_values(name, values))
        count = self.rows if mask is None else int(np.count_nonzero(mask))
        if count == self.live:
            total, mask = self.total_length, None if count == self.rows else mask
        else:
            total = int(self.lengths[mask].sum())
        average_length = total / count if count else 0.0
        return Candidates(self.words, self.rules.variant, self.neighbours, mask, count, average_length)

    def _mask_values(self, name: str, values: Sequence[str]) -> Mask:
        mask = np.zeros(self.rows, np.bool_)
        for value in values:
            mask[self.facets.find_rows(encode_facet(name, value))] = True
        return mask


_NO_REGIONS = np.empty((0, 2), np.int64)


def encode_facet(name: str, value: str) -> str:
    """Return the term of an attribute in the lists of facets; the name of the section is empty."""
    return f"{name}\0{value}"


def _intersect(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else mask & other


def _explain(names: Sequence[str], words: WeightedTerms, rows: Int64s) -> list[tuple[TermScore, ...]]:
    """Return the terms that each row contains, with their part of its raw BM25, in the order of the query."""
    matches, scores = score_rows(words, rows)
    return [
        tuple(TermScore(names[i], float(scores[i, row])) for i in np.flatnonzero(matches[:, row]).tolist())
        for row in range(len(rows))
    ]
