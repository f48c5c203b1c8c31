"""One version of an index, as readers see it: it never changes and needs no lock.

Scores are computed over the candidates only (S-13): a filter changes how many entries there are, how long they are on
average and how common a term is, and all of that is counted for the filter at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.search.domain.bm25 import Variant
from services.search.domain.clusters import ClusterView
from services.search.domain.coarse import Coarse
from services.search.domain.facets import Facets, facet
from services.search.domain.fusion import EQUAL_WITHIN, reciprocal_ranks, weighted
from services.search.domain.items import Items
from services.search.domain.kernels import Float32s, Floats, Fused, Int64s, Kernels, Mask, NumpyKernels, best_of
from services.search.domain.postings import Lists
from services.search.domain.query import Filter, ItemT, Ranking, Scored, TermScore
from services.search.domain.term_table import TermView

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
    lowest row of the `far` farthest clusters, because min-max needs to know how low scores go. Both scores are computed
    for all of the pool.
    """

    above: int
    pool: int = 256
    probes: int = 32
    far: int = 4


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


class IndexView(NamedTuple, Generic[ItemT]):
    """All rows up to `rows` that were alive in `version`.

    A tuple, because one is made for every change. ``term_counts`` tells how many terms are held by exactly n live
    entries, for each n; it is kept only for a BM25 with a floor. ``revision`` is the writer's own number for the state,
    for example the revision of a playbook. ``remembered`` begins empty.
    """

    version: int
    revision: int
    rows: int
    live: int
    total_length: int
    items: Items[ItemT]
    order: Int64s
    confidence: Floats
    lengths: NDArray[np.int32]
    died: Int64s
    vectors: Float32s
    coarse: Coarse
    terms: TermView
    facets: Facets
    term_counts: Mapping[int, int]
    variant: Variant
    kernels: Kernels
    preselection: Preselection
    clusters: ClusterView | None
    remembered: dict[Filter, Candidates]

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
        bm25 = self.bm25(terms, candidates)
        pool = self._pool(query, bm25, candidates, count)
        if pool is None:
            fused = self._best_of_all(query, bm25, candidates.mask, fusion, count)
        else:
            fused = self._best_of(pool, query, bm25[pool], fusion, count)
        rows = fused.rows.tolist()
        results = map(
            Scored,
            self.items.at(rows),
            fused.vector.tolist(),
            fused.bm25.tolist(),
            fused.combined.tolist(),
            fused.cosine.tolist(),
            bm25[fused.rows].tolist(),
            self._matched(rows, terms, candidates) if explain else [()] * len(rows),
        )
        return Ranking(list(results), candidates.count, fusion.alpha, pool is not None)

    def _pool(self, query: Float32s, bm25: Floats, candidates: Candidates, count: int) -> Int64s | None:
        """The rows that are worth scoring by both sides, ascending; None if all of them are to be scored."""
        chosen = self.preselection
        if self.clusters is None or candidates.count <= chosen.above:
            return None
        size = max(chosen.pool, 4 * count)
        centroids = self.kernels.inner_products(self.clusters.centroids, query)
        near, far = self.clusters.rows_near_and_far(centroids, chosen.probes, chosen.far, self.rows)
        if candidates.mask is not None:
            near, far = near[candidates.mask[near]], far[candidates.mask[far]]
        closeness = self.kernels.inner_products_of(self.vectors, near, query).astype(np.float64)
        farness = -self.kernels.inner_products_of(self.vectors, far, query).astype(np.float64)
        parts = [
            near[self.kernels.highest(closeness, None, size)],
            far[self.kernels.highest(farness, None, 1)],
            self.kernels.highest(bm25, candidates.mask, size),
        ]
        return np.unique(np.concatenate(parts))

    def _best_of_all(self, query: Float32s, bm25: Floats, mask: Mask | None, fusion: Fusion, count: int) -> Fused:
        if fusion.method == "rrf":
            cosine = self.kernels.inner_products(self.vectors, query)
            return _fused_by_rank(cosine, bm25, self.order, mask, fusion.alpha, count)
        fused = self.kernels.best_of_all(self.vectors, self.coarse, query, bm25, self.order, mask, fusion.alpha, count)
        if EQUAL_WITHIN < fused.spread <= SINGLE_PRECISION_NOISE:
            return _best_in_double(self.vectors, query, bm25, self.order, mask, fusion.alpha, count)
        return fused

    def _best_of(self, pool: Int64s, query: Float32s, bm25: Floats, fusion: Fusion, count: int) -> Fused:
        """The best among the rows of the pool, whose raw scores `bm25` follows."""
        cosine, order = self.kernels.inner_products_of(self.vectors, pool, query), self.order[pool]
        if fusion.method == "rrf":
            fused = _fused_by_rank(cosine, bm25, order, None, fusion.alpha, count)
        else:
            fused = self.kernels.best(cosine, bm25, order, None, fusion.alpha, count)
            if EQUAL_WITHIN < fused.spread <= SINGLE_PRECISION_NOISE:
                fused = _best_in_double(self.vectors[pool], query, bm25, order, None, fusion.alpha, count)
        return fused._replace(rows=pool[fused.rows])

    def _matched(
        self, rows: Sequence[int], terms: Sequence[str], candidates: Candidates
    ) -> list[tuple[TermScore, ...]]:
        """The query's terms that each row holds, with their part of its raw BM25, in the order of the query."""
        known, lists, weights = self.weighted_lists(terms, candidates)
        parts: list[list[TermScore]] = [[] for _ in rows]
        for i, term in enumerate(known):
            one = Lists(lists.rows, lists.counts, lists.start[i : i + 1], lists.length[i : i + 1])
            held = lists.rows[lists.start[i] : lists.start[i] + lists.length[i]]
            scores = self.kernels.bm25(one, weights[i : i + 1], self.lengths, candidates.average_length, self.variant)
            for part, row in zip(parts, rows, strict=True):
                place = int(np.searchsorted(held, row))
                if place < len(held) and held[place] == row:
                    part.append(TermScore(term, float(scores[row])))
        return [tuple(part) for part in parts]

    def bm25(self, terms: Sequence[str], candidates: Candidates) -> Floats:
        """Raw BM25 of every row for the query's terms, over the candidates' statistics (S-19 to S-26)."""
        _, lists, weights = self.weighted_lists(terms, candidates)
        if not len(weights) or not candidates.average_length:
            return np.zeros(self.rows)
        return self.kernels.bm25(lists, weights, self.lengths, candidates.average_length, self.variant)

    def weighted_lists(self, terms: Sequence[str], candidates: Candidates) -> tuple[list[str], Lists, Floats]:
        """The query's distinct known terms, their postings, and what each weighs: its idf, floored (S-22)."""
        times: dict[str, int] = {}
        for term in terms:
            times[term] = times.get(term, 0) + 1
        known, lists = self.terms.lists.of(times)
        weights = self.kernels.idf(lists, self.rows, candidates.mask, candidates.count, self.variant)
        if self.variant.floored and known and weights.min() < 0.0:
            weights[weights < 0.0] = self.variant.epsilon * candidates.average_idf
        if len(times) < len(terms):
            # A query term repeated k times counts k times (S-24).
            weights *= [times[term] for term in known]
        return known, lists, weights

    def term_counts_of(self, mask: Mask | None) -> Mapping[int, int]:
        """How many terms are held by exactly n of the admitted entries, for each n >= 1."""
        if mask is None:
            return self.term_counts
        held_by = np.repeat(mask, np.diff(self.terms.pointers))
        holding = np.bincount(self.terms.numbers[: len(held_by)][held_by])
        numbers = np.bincount(holding[holding > 0])
        return {n: count for n, count in enumerate(numbers.tolist()) if count}

    def _select(self, admitted: Filter) -> Candidates:
        mask: Mask | None = None
        if self.live < self.rows:
            mask = self.died > self.version
        if admitted.min_confidence > 0.0:
            mask = _both(mask, self.confidence >= admitted.min_confidence)
        if admitted.sections:
            mask = _both(mask, self._holding_facet([facet("", section) for section in admitted.sections]))
        for name, value in admitted.attributes:
            mask = _both(mask, self._holding_facet([facet(name, value)]))
        count = self.rows if mask is None else int(np.count_nonzero(mask))
        everything = count == self.live
        total = self.total_length if everything else int(self.lengths[mask].sum())
        return Candidates(
            self, None if count == self.rows else mask, everything, count, total / count if count else 0.0
        )

    def _holding_facet(self, names: Sequence[str]) -> Mask:
        mask = np.zeros(self.rows, np.bool_)
        for name in names:
            mask[self.facets.rows_of(name, self.rows)] = True
        return mask


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
    return Fused(rows[top], vector[top], lexical[top], combined[top], cosine[rows[top]], 0.0)
