"""The loops that a query spends its time in, in plain NumPy.

Another implementation (compiled, FAISS) may take their place if it gives the same results; the tests compare them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from services.search.domain.bm25 import Variant
from services.search.domain.coarse import Coarse
from services.search.domain.fusion import min_max, weighted
from services.search.domain.postings import Int32s, Lists, Pool, PostingsView, Regions, append_postings
from services.search.domain.vectors import store_vectors

Float32s = NDArray[np.float32]
Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Fused(NamedTuple):
    """The best rows, best first, with their scores; `spread` is the range of all cosines.

    ``scores`` has a line each for the scaled vector score, the scaled BM25, both combined, the cosine and the raw BM25.
    """

    rows: Int64s
    scores: Floats
    spread: float


class Cut(NamedTuple):
    """The columns of a view, one element or vector a row."""

    order: Int64s
    confidence: Floats
    lengths: NDArray[np.int32]
    died: Int64s
    vectors: Float32s
    coarse: Coarse


class Scope(NamedTuple):
    """What queries with one filter are answered over: `total` candidates, `average` terms long, among all rows.

    A mask of None admits every row.
    """

    cut: Cut
    postings: PostingsView
    mask: Mask | None
    total: int
    average: float
    variant: Variant


class Kernels(Protocol):
    """What the index needs computed. A mask of None admits every row."""

    def inner_products(self, vectors: Float32s, query: Float32s) -> Float32s:
        """The product of every row of `vectors` (N, d) with `query` (d,); equal rows give equal bits (S-41)."""
        ...

    def inner_products_of(self, vectors: Float32s, rows: Int64s, query: Float32s) -> Float32s:
        """The product of each of these rows of `vectors` with `query`; equal rows give equal bits."""
        ...

    def highest(self, scores: Floats, mask: Mask | None, count: int) -> Int64s:
        """The admitted rows with the `count` highest scores, in any order; any of those that tie for the last place."""
        ...

    def idf(self, lists: Lists, rows: int, mask: Mask | None, total: int, variant: Variant) -> Floats:
        """For each list, the idf of its term among `total` candidates, before the floor; 0 where none holds it.

        A candidate holds it if it is in the list, below `rows` and admitted by the mask.
        """
        ...

    def bm25(
        self, lists: Lists, weights: Floats, lengths: NDArray[np.int32], average: float, variant: Variant
    ) -> Floats:
        """BM25 of every row: the sum over lists of weight · count · gain / (count + norm), shape of `lengths`.

        Rows in the lists beyond `lengths` are later than the reader's version and are left out.
        """
        ...

    def best(self, cosine: Float32s, bm25: Floats, order: Int64s, mask: Mask | None, alpha: float, count: int) -> Fused:
        """The `count` best rows by min-max fusion over the admitted rows; ties by `order` (S-29 to S-34)."""
        ...

    def best_of_all(
        self,
        vectors: Float32s,
        coarse: Coarse,
        query: Float32s,
        bm25: Floats,
        order: Int64s,
        mask: Mask | None,
        alpha: float,
        count: int,
    ) -> Fused:
        """What `best` gives for the products of all rows of `vectors` with `query`; some of them may go unneeded."""
        ...

    def framed(self, scope: Scope) -> Any:
        """A scope in the form that `answer` takes, which is made once and used by many queries."""
        ...

    def answer(
        self, frame: Any, regions: Int64s, times: Floats, query: Float32s, alpha: float, count: int
    ) -> Fused | None:
        """`idf`, `bm25` and `best_of_all` in one go; None if that is not to be had, or a term is below the floor.

        The query's distinct terms have their lists in these `regions` of the scope's postings; it has each so many
        `times`.
        """
        ...

    def store_vectors(self, given: Floats | Float32s, at: int, units: Float32s, coarse: Coarse) -> bool:
        """See `store_vectors` of the vectors."""
        ...

    def append_postings(
        self, row: int, numbers: Int32s, counts: Int32s, pool: Pool, regions: Regions, room: Int64s, used: int
    ) -> int:
        """See `append_postings` of the postings."""
        ...


class NumpyKernels:
    """The kernels in NumPy alone: no compiler, no FAISS."""

    def inner_products(self, vectors: Float32s, query: Float32s) -> Float32s:
        """See `Kernels`. einsum sums each row alone, whereas a BLAS product may round the last rows differently."""
        products: Float32s = np.einsum("ij,j->i", vectors, query)
        return products

    def inner_products_of(self, vectors: Float32s, rows: Int64s, query: Float32s) -> Float32s:
        """See `Kernels`."""
        return self.inner_products(vectors[rows], query)

    def highest(self, scores: Floats, mask: Mask | None, count: int) -> Int64s:
        """See `Kernels`."""
        rows = np.arange(len(scores)) if mask is None else np.flatnonzero(mask)
        if count >= len(rows):
            return rows
        best: Int64s = rows[np.argpartition(-scores[rows], count)[:count]]
        return best

    def idf(self, lists: Lists, rows: int, mask: Mask | None, total: int, variant: Variant) -> Floats:
        """See `Kernels`."""
        idf = np.zeros(len(lists.regions))
        for i, places in enumerate(lists.places()):
            held = _cut(lists, places, rows)[0]
            count = len(held) if mask is None else int(np.count_nonzero(mask[held]))
            idf[i] = variant.idf(total, count) if count else 0.0
        return idf

    def bm25(
        self, lists: Lists, weights: Floats, lengths: NDArray[np.int32], average: float, variant: Variant
    ) -> Floats:
        """See `Kernels`."""
        scores = np.zeros(len(lengths))
        for places, weight in zip(lists.places(), weights.tolist(), strict=True):
            rows, counts = _cut(lists, places, len(lengths))
            norm = variant.k1 * (1.0 - variant.b + variant.b * lengths[rows] / average)
            scores[rows] += weight * counts * variant.gain / (counts + norm)
        return scores

    def best(
        self,
        cosine: Float32s | Floats,
        bm25: Floats,
        order: Int64s,
        mask: Mask | None,
        alpha: float,
        count: int,
    ) -> Fused:
        """See `Kernels`."""
        rows = np.arange(len(bm25)) if mask is None else np.flatnonzero(mask)
        admitted = cosine[rows].astype(np.float64)
        vector = min_max(admitted)
        lexical = min_max(bm25[rows])
        combined = weighted(vector, lexical, alpha)
        top = best_of(combined, order[rows], count)
        spread = float(np.ptp(admitted)) if len(rows) else 0.0
        best = rows[top]
        return Fused(best, np.array([vector[top], lexical[top], combined[top], cosine[best], bm25[best]]), spread)

    def best_of_all(
        self,
        vectors: Float32s,
        coarse: Coarse,
        query: Float32s,
        bm25: Floats,
        order: Int64s,
        mask: Mask | None,
        alpha: float,
        count: int,
    ) -> Fused:
        """See `Kernels`."""
        return self.best(self.inner_products(vectors, query), bm25, order, mask, alpha, count)

    def framed(self, scope: Scope) -> Any:
        """See `Kernels`."""
        return None

    def answer(
        self, frame: Any, regions: Int64s, times: Floats, query: Float32s, alpha: float, count: int
    ) -> Fused | None:
        """See `Kernels`: step by step it is no slower here."""
        return None

    def store_vectors(self, given: Floats | Float32s, at: int, units: Float32s, coarse: Coarse) -> bool:
        """See `Kernels`."""
        return store_vectors(given, at, units, coarse)

    def append_postings(
        self, row: int, numbers: Int32s, counts: Int32s, pool: Pool, regions: Regions, room: Int64s, used: int
    ) -> int:
        """See `Kernels`."""
        return append_postings(row, numbers, counts, pool, regions, room, used)


def best_of(scores: Floats, order: Int64s, count: int) -> Int64s:
    """Indexes of the `count` highest scores, highest first, ties by ascending `order` (S-33, S-34)."""
    if count < len(scores):
        threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
        pool = np.flatnonzero(scores >= threshold)
    else:
        pool = np.arange(len(scores))
    ranked: Int64s = pool[np.lexsort((order[pool], -scores[pool]))][:count]
    return ranked


def _cut(lists: Lists, places: slice, rows: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    held = lists.rows[places]
    seen = int(np.searchsorted(held, rows))
    return held[:seen], lists.counts[places][:seen]
