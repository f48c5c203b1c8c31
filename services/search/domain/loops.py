"""The loops that take most of the time of a query, in plain NumPy.

A faster implementation of the same functions can replace them (`Loops`); the tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from services.search.domain.fusion import (
    EQUAL_WITHIN,
    SINGLE_PRECISION_NOISE,
    Floats,
    Fusion,
    Int64s,
    RankedRows,
    add_best_sentences,
    fuse,
)
from services.search.domain.postings import Int32s, Mask, Uint32s
from services.search.domain.vectors import Float32s, Int8s, compute_inner_products

SENTENCE_BITS = 32
"""Bits of the set of a posting's sentences."""


class WeightedTerms(NamedTuple):
    """The lists of a query's distinct terms, with the BM25 parameters of the candidates.

    List i is `rows[start : start + length]` with `regions[i]` its start and length. A row with `count` occurrences of
    its term gains `weights[i] · count / (count + shortest + longer · lengths[row])`. ``attainable`` is the score of a
    row of average length that has each term of the query once, also the terms that no candidate has. ``sentences`` has
    for each posting the sentences that contain the term, as a set of bits.
    """

    rows: Int32s
    counts: Int32s
    regions: Int64s
    weights: Floats
    lengths: Int32s
    shortest: float
    longer: float
    attainable: float
    sentences: Uint32s

    def slice_lists(self) -> list[tuple[Int32s, Int32s, float]]:
        """Return of every list the rows, the occurrences of the term in each, and the weight."""
        spans = [slice(start, start + length) for start, length in self.regions.tolist()]
        weights = self.weights.tolist()
        return [(self.rows[span], self.counts[span], weight) for span, weight in zip(spans, weights, strict=True)]

    def compute_gain(self, counts: Int32s, rows: NDArray[np.integer], weight: float) -> Floats:
        """Return the score of these rows for a term with so many occurrences in each."""
        norms = self.shortest + self.longer * self.lengths[rows]
        gained: Floats = weight * counts / (counts + norms)
        return gained


class VectorRows(NamedTuple):
    """Unit vectors with their codes and bounds (`services.search.domain.vectors`), and the order of ties."""

    units: Float32s
    codes: Int8s
    bounds: Float32s
    order: Int64s


class Refinement(NamedTuple):
    """The number of best rows whose BM25 is raised by their best sentence, and the weight of that; 0 rows: none."""

    rows: int
    weight: float


NO_REFINEMENT = Refinement(0, 0.0)


class RankRows(Protocol):
    """Ranks all rows that the mask admits; None admits every row."""

    def __call__(
        self,
        vectors: VectorRows,
        words: WeightedTerms,
        query: Float32s,
        mask: Mask | None,
        fusion: Fusion,
        count: int,
        refinement: Refinement = NO_REFINEMENT,
    ) -> RankedRows:
        """Return the `count` best rows by both scores, ties by their order (S-29 to S-34).

        With a refinement they are chosen out of its number of best rows, by their best sentence.
        """


class RankPool(Protocol):
    """Ranks the rows of a pool as if there were no others."""

    def __call__(
        self,
        vectors: VectorRows,
        words: WeightedTerms,
        query: Float32s,
        pool: Int64s,
        fusion: Fusion,
        count: int,
        refinement: Refinement = NO_REFINEMENT,
    ) -> RankedRows:
        """Return the `count` best of these rows, which ascend; see `RankRows`."""


class Loops(NamedTuple):
    """The functions of this module, or another implementation of them."""

    rank_rows: RankRows
    rank_pool: RankPool
    select_best_by_words: Callable[[WeightedTerms, Mask | None, int], Int64s]
    count_admitted: Callable[[Int32s, Int64s, Mask], Int64s]


def rank_rows(
    vectors: VectorRows,
    words: WeightedTerms,
    query: Float32s,
    mask: Mask | None,
    fusion: Fusion,
    count: int,
    refinement: Refinement = NO_REFINEMENT,
) -> RankedRows:
    """See `RankRows`."""
    bm25, limit = score_words(words), refinement.rows or count
    if mask is None:
        ranked = rank_scored(vectors.units, query, bm25, vectors.order, fusion, limit, words.attainable)
    else:
        ranked = _rank_some(vectors, words, query, np.flatnonzero(mask), bm25[mask], fusion, limit)
    return prefer_best_sentences(words, ranked, refinement.weight, vectors.order, count) if refinement.rows else ranked


def rank_pool(
    vectors: VectorRows,
    words: WeightedTerms,
    query: Float32s,
    pool: Int64s,
    fusion: Fusion,
    count: int,
    refinement: Refinement = NO_REFINEMENT,
) -> RankedRows:
    """See `RankPool`."""
    bm25 = score_rows(words, pool)[1].sum(axis=0)
    ranked = _rank_some(vectors, words, query, pool, bm25, fusion, refinement.rows or count)
    return prefer_best_sentences(words, ranked, refinement.weight, vectors.order, count) if refinement.rows else ranked


def _rank_some(
    vectors: VectorRows,
    words: WeightedTerms,
    query: Float32s,
    rows: Int64s,
    bm25: Floats,
    fusion: Fusion,
    count: int,
) -> RankedRows:
    """Return the `count` best of some rows, which have these scores."""
    units, order = vectors.units[rows], vectors.order[rows]
    ranked = rank_scored(units, query, bm25, order, fusion, count, words.attainable)
    return ranked._replace(rows=rows[ranked.rows])


def rank_scored(
    units: Float32s, query: Float32s, bm25: Floats, order: Int64s, fusion: Fusion, count: int, attainable: float
) -> RankedRows:
    """Return the `count` best rows; row i has the unit vector `units[i]` and the score `bm25[i]`."""
    ranked = fuse(compute_inner_products(units, query), bm25, order, fusion, count, attainable)
    if EQUAL_WITHIN < ranked.spread <= SINGLE_PRECISION_NOISE:
        return fuse((units.astype(np.float64) * query).sum(axis=1), bm25, order, fusion, count, attainable)
    return ranked


def score_words(words: WeightedTerms) -> Floats:
    """Return the BM25 score of every row (S-23, S-24)."""
    scores = np.zeros(len(words.lengths))
    for rows, counts, weight in words.slice_lists():
        scores[rows] += words.compute_gain(counts, rows, weight)
    return scores


def score_rows(words: WeightedTerms, rows: Int64s) -> tuple[NDArray[np.bool_], Floats]:
    """Return for each list and row whether the row contains the term, and its score; both of shape (lists, rows)."""
    matches = np.zeros((len(words.weights), len(rows)), np.bool_)
    scores = np.zeros((len(words.weights), len(rows)))
    for number, (listed, counts, weight) in enumerate(words.slice_lists()):
        found, positions = find_positions(listed, rows)
        matches[number, found] = True
        scores[number, found] = words.compute_gain(counts[positions], rows[found], weight)
    return matches, scores


def prefer_best_sentences(
    words: WeightedTerms, ranked: RankedRows, weight: float, order: Int64s, count: int
) -> RankedRows:
    """Return the `count` best of these rows after their BM25 is raised by `weight` times that of their best sentence.

    ``order`` has a value for every row of the index.
    """
    return add_best_sentences(ranked, sum_best_sentences(words, ranked.rows), weight, order, count)


def sum_best_sentences(words: WeightedTerms, rows: Int64s) -> Floats:
    """Return for each of these rows the highest sum of weights of the terms that one of its sentences contains."""
    sums = np.zeros((SENTENCE_BITS, len(rows)))
    bits = np.arange(SENTENCE_BITS, dtype=np.uint32)[:, np.newaxis]
    for (start, length), weight in zip(words.regions.tolist(), words.weights.tolist(), strict=True):
        inside, positions = find_positions(words.rows[start : start + length], rows)
        sums[:, inside] += weight * (words.sentences[start + positions] >> bits & 1)
    best: Floats = sums.max(axis=0)
    return best


def find_positions(listed: Int32s, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return the indices of those `rows` that are in the ascending list, and their positions there."""
    positions = np.searchsorted(listed, rows.astype(np.int32))
    inside = np.flatnonzero(positions < len(listed))
    found = inside[listed[positions[inside]] == rows[inside]]
    return found, positions[found]


def select_best_by_words(words: WeightedTerms, mask: Mask | None, count: int) -> Int64s:
    """Return the admitted rows with the `count` highest BM25 scores above 0, in any order."""
    scores = score_words(words)
    rows = np.flatnonzero(scores > 0.0 if mask is None else (scores > 0.0) & mask)
    return select_highest(scores[rows], rows, count)


def select_highest(scores: NDArray[np.floating], rows: Int64s, count: int) -> Int64s:
    """Return those of `rows` with the `count` highest `scores`, in any order."""
    return rows if count >= len(rows) else rows[np.argpartition(-scores, count)[:count]]


def count_admitted(rows: Int32s, regions: Int64s, mask: Mask) -> Int64s:
    """Return for each list the number of rows that the mask admits."""
    counts: Sequence[int] = [int(np.count_nonzero(mask[rows[start : start + n]])) for start, n in regions.tolist()]
    return np.array(counts, np.int64)


NUMPY_LOOPS = Loops(rank_rows, rank_pool, select_best_by_words, count_admitted)
