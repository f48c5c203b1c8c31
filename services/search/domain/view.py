"""One version of an index, as readers see it: it never changes and needs no lock.

Scores are computed over the candidates only (S-13): a filter changes how many entries there are, how long they are on
average and how common a term is, and all of that is counted for the filter at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Generic, NamedTuple

import numpy as np

from services.search.domain.bm25 import Variant
from services.search.domain.clusters import ClusterView
from services.search.domain.columns import Column
from services.search.domain.facets import Facets, facet
from services.search.domain.fusion import EQUAL_WITHIN, reciprocal_ranks, weighted
from services.search.domain.items import Items
from services.search.domain.kernels import (
    Cut,
    Float32s,
    Floats,
    Fused,
    Int64s,
    Kernels,
    Mask,
    NumpyKernels,
    Scope,
    best_of,
)
from services.search.domain.postings import Lists, PostingsView
from services.search.domain.query import Filter, ItemT, Ranking, Results, TermScore
from services.search.domain.term_table import TermTable
from services.search.domain.vectors import Vectors

# Below this range the rounding of float32 products would decide the order, so they are computed again in float64.
SINGLE_PRECISION_NOISE = 1e-6
REMEMBERED_FILTERS = 32

ALIVE = np.iinfo(np.int64).max
"""The version in which a living row dies."""


class Fusion(NamedTuple):
    """How both scores become one: `minmax` as specified, or `rrf`; `alpha` is the vector score's share in 0..1."""

    alpha: float
    method: str = "minmax"


@dataclass(frozen=True, slots=True)
class Preselection:
    """With more than `above` candidates only a pool of them is scored.

    The pool holds the `pool` best by BM25, the `pool` nearest among the rows of the `probes` nearest clusters, and the
    lowest row of the farthest clusters, because min-max needs to know how low scores go: one cluster in `far`, and at
    least four. Both scores are computed for all of the pool.
    """

    above: int
    pool: int = 256
    probes: int = 32
    far: int = 64


NO_PRESELECTION = Preselection(above=np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows a filter admits in one version; a mask of None admits all of them, and `everything` all living ones."""

    view: IndexView[Any]
    mask: Mask | None
    everything: bool
    count: int
    average_length: float

    @cached_property
    def average_idf(self) -> float:
        """Mean of the idf of all distinct terms of the candidates, before the floor (S-21)."""
        holding = self.view.term_counts_of(None if self.everything else self.mask)
        if not holding:
            return 0.0
        held = np.fromiter(holding.keys(), np.float64, len(holding))
        terms = np.fromiter(holding.values(), np.float64, len(holding))
        idf = np.log(self.count - held + 0.5) - np.log(held + 0.5)
        return float((idf * terms).sum() / terms.sum())

    @cached_property
    def frame(self) -> Any:
        """What the kernels answer queries over."""
        view = self.view
        scope = Scope(view.cut, view.postings, self.mask, self.count, self.average_length, view.rules.variant)
        return view.rules.kernels.framed(scope)


class Rows(NamedTuple, Generic[ItemT]):
    """What the writer keeps of each row, and goes on writing: a view looks at no more rows than it has."""

    items: Items[ItemT]
    order: Column
    confidence: Column
    lengths: Column
    died: Column
    vectors: Vectors
    terms: TermTable
    facets: Facets


class Rules(NamedTuple):
    """How an index ranks."""

    variant: Variant
    kernels: Kernels
    preselection: Preselection = NO_PRESELECTION


@dataclass(eq=False)
class IndexView(Generic[ItemT]):
    """All rows up to `rows` that were alive in `version`.

    One is made for every change, so what takes time waits for the first query. ``term_counts`` tells how many terms
    are held by exactly n live entries, for each n; it is kept only for a BM25 with a floor. ``revision`` is the
    writer's own number for the state, for example the revision of a playbook.
    """

    version: int
    revision: int
    rows: int
    live: int
    total_length: int
    written: Rows[ItemT]
    postings: PostingsView
    clusters: ClusterView | None
    term_counts: Mapping[int, int]
    rules: Rules

    @cached_property
    def cut(self) -> Cut:
        """Its columns."""
        count, written = self.rows, self.written
        vectors, coarse = written.vectors.first(count)
        return Cut(
            written.order.array[:count],
            written.confidence.array[:count],
            written.lengths.array[:count],
            written.died.array[:count],
            vectors,
            coarse,
        )

    @cached_property
    def remembered(self) -> dict[Filter, Candidates]:
        """The candidates of the filters that were asked for."""
        return {}

    @property
    def dimension(self) -> int:
        """Of the vectors."""
        return self.written.vectors.width

    def candidates(self, admitted: Filter) -> Candidates:
        """The rows that `admitted` lets pass (S-09, S-10). Remembered, since one version is asked the same again."""
        known = self.remembered.get(admitted)
        if known is None:
            known = self._select(admitted)
            if len(self.remembered) < REMEMBERED_FILTERS:
                self.remembered[admitted] = known
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
        """The `count` best entries for the query's terms and its vector (unit length, float32, shape (d,)).

        With `explain` each result also says which terms it holds.
        """
        candidates = self.candidates(admitted)
        if not candidates.count:
            return Ranking(alpha=fusion.alpha)
        preselected = self.clusters is not None and candidates.count > self.rules.preselection.above
        fused = None if preselected else self._answer(terms, query, candidates, fusion, count)
        if fused is None:
            fused = self._step_by_step(terms, query, candidates, fusion, count, preselected)
        rows = fused.rows.tolist()
        matched = self._matched(rows, terms, candidates) if explain else ()
        results = Results(self.written.items.at(rows), fused.scores, matched)
        return Ranking(results, candidates.count, fusion.alpha, preselected)

    def _answer(
        self, terms: Sequence[str], query: Float32s, candidates: Candidates, fusion: Fusion, count: int
    ) -> Fused | None:
        """The best of all rows in one go, if that is to be had and float32 can tell them apart."""
        if fusion.method == "rrf":
            return None
        numbers, times = self._counted(terms)
        regions = self.postings.regions_of(numbers)
        fused = self.rules.kernels.answer(candidates.frame, regions, times, query, fusion.alpha, count)
        return None if fused is None or EQUAL_WITHIN < fused.spread <= SINGLE_PRECISION_NOISE else fused

    def _step_by_step(
        self,
        terms: Sequence[str],
        query: Float32s,
        candidates: Candidates,
        fusion: Fusion,
        count: int,
        preselected: bool,
    ) -> Fused:
        bm25 = self.bm25(terms, candidates)
        if not preselected:
            return self._best_of_all(query, bm25, candidates.mask, fusion, count)
        pool = self._pool(query, bm25, candidates, count)
        return self._best_of(pool, query, bm25[pool], fusion, count)

    def _pool(self, query: Float32s, bm25: Floats, candidates: Candidates, count: int) -> Int64s:
        """The rows that are worth scoring by both sides, ascending."""
        assert self.clusters is not None
        chosen = self.rules.preselection
        size = max(chosen.pool, 4 * count)
        centroids = self.rules.kernels.inner_products(self.clusters.centroids, query)
        farthest = max(4, len(centroids) // chosen.far)
        near, far = self.clusters.rows_near_and_far(centroids, chosen.probes, farthest, self.rows)
        if candidates.mask is not None:
            near, far = near[candidates.mask[near]], far[candidates.mask[far]]
        closeness = self.rules.kernels.inner_products_of(self.cut.vectors, near, query).astype(np.float64)
        farness = -self.rules.kernels.inner_products_of(self.cut.vectors, far, query).astype(np.float64)
        parts = [
            near[self.rules.kernels.highest(closeness, None, size)],
            far[self.rules.kernels.highest(farness, None, 1)],
            self.rules.kernels.highest(bm25, candidates.mask, size),
        ]
        return np.unique(np.concatenate(parts))

    def _best_of_all(self, query: Float32s, bm25: Floats, mask: Mask | None, fusion: Fusion, count: int) -> Fused:
        kernels, order, vectors, alpha = self.rules.kernels, self.cut.order, self.cut.vectors, fusion.alpha
        if fusion.method == "rrf":
            return _fused_by_rank(kernels.inner_products(vectors, query), bm25, order, mask, alpha, count)
        fused = kernels.best_of_all(vectors, self.cut.coarse, query, bm25, order, mask, alpha, count)
        if EQUAL_WITHIN < fused.spread <= SINGLE_PRECISION_NOISE:
            return _best_in_double(vectors, query, bm25, order, mask, alpha, count)
        return fused

    def _best_of(self, pool: Int64s, query: Float32s, bm25: Floats, fusion: Fusion, count: int) -> Fused:
        """The best among the rows of the pool, whose raw scores `bm25` follows."""
        cosine, order = self.rules.kernels.inner_products_of(self.cut.vectors, pool, query), self.cut.order[pool]
        if fusion.method == "rrf":
            fused = _fused_by_rank(cosine, bm25, order, None, fusion.alpha, count)
        else:
            fused = self.rules.kernels.best(cosine, bm25, order, None, fusion.alpha, count)
            if EQUAL_WITHIN < fused.spread <= SINGLE_PRECISION_NOISE:
                fused = _best_in_double(self.cut.vectors[pool], query, bm25, order, None, fusion.alpha, count)
        return fused._replace(rows=pool[fused.rows])

    def _matched(
        self, rows: Sequence[int], terms: Sequence[str], candidates: Candidates
    ) -> list[tuple[TermScore, ...]]:
        """The query's terms that each row holds, with their part of its raw BM25, in the order of the query."""
        known = [term for term in dict.fromkeys(terms) if self.postings.numbers([term])]
        lists, weights = self.weighted_lists(terms, candidates)
        parts: list[list[TermScore]] = [[] for _ in rows]
        for i, (term, places) in enumerate(zip(known, lists.places(), strict=True)):
            one = Lists(lists.rows, lists.counts, lists.regions[i : i + 1])
            held = lists.rows[places]
            scores = self.rules.kernels.bm25(
                one, weights[i : i + 1], self.cut.lengths, candidates.average_length, self.rules.variant
            )
            for part, row in zip(parts, rows, strict=True):
                place = int(np.searchsorted(held, row))
                if place < len(held) and held[place] == row:
                    part.append(TermScore(term, float(scores[row])))
        return [tuple(part) for part in parts]

    def bm25(self, terms: Sequence[str], candidates: Candidates) -> Floats:
        """Raw BM25 of every row for the query's terms, over the candidates' statistics (S-19 to S-26)."""
        lists, weights = self.weighted_lists(terms, candidates)
        if not len(weights) or not candidates.average_length:
            return np.zeros(self.rows)
        return self._scored(lists, weights, candidates)

    def _scored(self, lists: Lists, weights: Floats, candidates: Candidates) -> Floats:
        kernels, variant = self.rules.kernels, self.rules.variant
        return kernels.bm25(lists, weights, self.cut.lengths, candidates.average_length, variant)

    def weighted_lists(self, terms: Sequence[str], candidates: Candidates) -> tuple[Lists, Floats]:
        """The postings of the query's distinct known terms, and what each weighs: its idf, floored (S-22)."""
        numbers, times = self._counted(terms)
        lists = self.postings.numbered(numbers)
        weights = self.rules.kernels.idf(lists, self.rows, candidates.mask, candidates.count, self.rules.variant)
        if self.rules.variant.floored and numbers and weights.min() < 0.0:
            weights[weights < 0.0] = self.rules.variant.epsilon * candidates.average_idf
        return lists, weights * times

    def _counted(self, terms: Sequence[str]) -> tuple[list[int], Floats]:
        """The numbers of the query's distinct known terms, and how often the query has each (S-24)."""
        numbers = self.postings.numbers(terms)
        if len(set(numbers)) == len(numbers):
            return numbers, _once(len(numbers))
        times = Counter(numbers)
        return list(times), np.array(list(times.values()), np.float64)

    def term_counts_of(self, mask: Mask | None) -> Mapping[int, int]:
        """How many terms are held by exactly n of the admitted entries, for each n >= 1."""
        if mask is None:
            return self.term_counts
        terms = self.written.terms
        held_by = np.repeat(mask, np.diff(terms.pointers[: self.rows + 1]))
        holding = np.bincount(terms.numbers[: len(held_by)][held_by])
        numbers = np.bincount(holding[holding > 0])
        return {n: count for n, count in enumerate(numbers.tolist()) if count}

    def _select(self, admitted: Filter) -> Candidates:
        mask: Mask | None = None
        if self.live < self.rows:
            mask = self.cut.died > self.version
        if admitted.min_confidence > 0.0:
            mask = _both(mask, self.cut.confidence >= admitted.min_confidence)
        if admitted.sections:
            mask = _both(mask, self._holding_facet([facet("", section) for section in admitted.sections]))
        for name, value in admitted.attributes:
            mask = _both(mask, self._holding_facet([facet(name, value)]))
        count = self.rows if mask is None else int(np.count_nonzero(mask))
        everything = count == self.live
        total = self.total_length if everything else int(self.cut.lengths[mask].sum())
        return Candidates(
            self, None if count == self.rows else mask, everything, count, total / count if count else 0.0
        )

    def _holding_facet(self, names: Sequence[str]) -> Mask:
        mask = np.zeros(self.rows, np.bool_)
        for name in names:
            mask[self.written.facets.rows_of(name, self.rows)] = True
        return mask


@cache
def _once(terms: int) -> Floats:
    return np.ones(terms)


def _both(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else mask & other


def _best_in_double(
    vectors: Float32s, query: Float32s, bm25: Floats, order: Int64s, mask: Mask | None, alpha: float, count: int
) -> Fused:
    """The best rows by products computed in float64."""
    cosine = (vectors.astype(np.float64) * query).sum(axis=1)
    return NumpyKernels().best(cosine, bm25, order, mask, alpha, count)


def _fused_by_rank(cosine: Float32s, bm25: Floats, order: Int64s, mask: Mask | None, alpha: float, count: int) -> Fused:
    """Weighted reciprocal rank fusion over the admitted rows; the scaled scores are the reciprocal ranks."""
    rows = np.arange(len(bm25)) if mask is None else np.flatnonzero(mask)
    vector = reciprocal_ranks(cosine[rows].astype(np.float64))
    lexical = reciprocal_ranks(bm25[rows])
    combined = weighted(vector, lexical, alpha)
    top = best_of(combined, order[rows], count)
    best = rows[top]
    return Fused(best, np.array([vector[top], lexical[top], combined[top], cosine[best], bm25[best]]), 0.0)
