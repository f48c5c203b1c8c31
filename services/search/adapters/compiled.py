"""The kernels at the speed of the machine: FAISS for products of vectors, numba for the loops over postings.

FAISS's inner product runs directly over the index's own rows: nothing is copied, rows may be memory-mapped, and each
product is computed alone, so equal rows give equal bits. The compiled loops run without the GIL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from numba import njit
from numpy.typing import NDArray

from services.search.domain.bm25 import OKAPI, Variant
from services.search.domain.fusion import EQUAL_WITHIN
from services.search.domain.kernels import Float32s, Floats, Fused, Int64s, Mask, NumpyKernels
from services.search.domain.postings import Lists

# FAISS exports its distance functions under their C++ names, unknown to its type stubs.
_faiss: Any = faiss
_EVERY_ROW = np.ones(1, np.bool_)
_Loop = Callable[[Callable[..., Any]], Callable[..., Any]]
_compiled: _Loop = njit(cache=True, nogil=True)
# No value is NaN here, which lets the compiler use vector instructions; the order of operations stays.
_vectorised: _Loop = njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})


class FaissKernels(NumpyKernels):
    """NumPy's kernels, with FAISS for the products."""

    def inner_products(self, vectors: Float32s, query: Float32s) -> Float32s:
        """See `Kernels`."""
        rows, dimension = vectors.shape
        products = np.empty(rows, np.float32)
        if rows:
            _faiss.fvec_inner_products_ny(
                _faiss.swig_ptr(products), _faiss.swig_ptr(query), _faiss.swig_ptr(vectors), dimension, rows
            )
        return products


class CompiledKernels(FaissKernels):
    """FAISS for the products, compiled loops for the rest."""

    def warm(self) -> None:
        """Compile, or load what an earlier process compiled, so that the first query does not wait for it."""
        rows, ones = np.zeros(1, np.int64), np.ones(1, np.int32)
        lists = Lists(ones - 1, ones, rows, rows + 1)
        for mask in (None, _EVERY_ROW):
            self.idf(lists, 1, mask, 1, OKAPI)
            self.highest(np.ones(1), mask, 1)
            _best(np.ones(1, np.float32), np.ones(1), rows, mask is not None, _EVERY_ROW, 0.5, 1)
        self.bm25(lists, np.ones(1), ones, 1.0, OKAPI)
        self.inner_products_of(np.ones((1, 1), np.float32), rows, np.ones(1, np.float32))

    def inner_products_of(self, vectors: Float32s, rows: Int64s, query: Float32s) -> Float32s:
        """See `Kernels`. FAISS has this too, but starts OpenMP threads for it, which costs more than it saves."""
        products: Float32s = _inner_products_of(vectors, rows, query)
        return products

    def highest(self, scores: Floats, mask: Mask | None, count: int) -> Int64s:
        """See `Kernels`."""
        if not len(scores):
            return np.empty(0, np.int64)
        best: Int64s = _highest(scores, mask is not None, _EVERY_ROW if mask is None else mask, count)
        return best

    def idf(self, lists: Lists, rows: int, mask: Mask | None, total: int, variant: Variant) -> Floats:
        """See `Kernels`."""
        admitted = _EVERY_ROW if mask is None else mask
        idf: Floats = _idf(
            lists.rows, lists.start, lists.length, rows, mask is not None, admitted, total, variant.floored
        )
        return idf

    def bm25(
        self, lists: Lists, weights: Floats, lengths: NDArray[np.int32], average: float, variant: Variant
    ) -> Floats:
        """See `Kernels`."""
        scores: Floats = _bm25(*lists, weights, lengths, average, variant.k1, variant.b, variant.gain)
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
        if count > len(order) // 4 or cosine.dtype != np.float32:
            return super().best(cosine, bm25, order, mask, alpha, count)
        return Fused(*_best(cosine, bm25, order, mask is not None, _EVERY_ROW if mask is None else mask, alpha, count))


@_compiled
def _idf(  # type: ignore[no-untyped-def]
    list_rows, starts, list_lengths, rows, masked, mask, total, floored
):
    idf = np.zeros(len(starts))
    for i in range(len(starts)):
        start, end = starts[i], starts[i] + list_lengths[i]
        while end > start and list_rows[end - 1] >= rows:
            end -= 1
        held = end - start
        if masked:
            held = 0
            for place in range(start, end):
                held += mask[list_rows[place]]
        if held and floored:
            idf[i] = math.log(total - held + 0.5) - math.log(held + 0.5)
        elif held:
            idf[i] = math.log1p((total - held + 0.5) / (held + 0.5))
    return idf


@_compiled
def _bm25(  # type: ignore[no-untyped-def]
    list_rows, list_counts, starts, list_lengths, weights, lengths, average, k1, b, gain
):
    rows = len(lengths)
    scores = np.zeros(rows)
    for i in range(len(starts)):
        weight = weights[i]
        for place in range(starts[i], starts[i] + list_lengths[i]):
            row = list_rows[place]
            if row >= rows:
                break
            count = list_counts[place]
            norm = k1 * (1.0 - b + b * lengths[row] / average)
            scores[row] += weight * count * gain / (count + norm)
    return scores


@_compiled
def _best(cosine: Any, bm25: Any, order: Any, masked: bool, mask: Any, alpha: float, count: int) -> Any:
    if masked:
        low_v, high_v = _range_of_admitted(cosine, mask)
        low_b, high_b = _range_of_admitted(bm25, mask)
    else:
        low_v, high_v = _range(cosine)
        low_b, high_b = _range(bm25)
    range_v, range_b = high_v - low_v, high_b - low_b
    flat_v, flat_b = not range_v > EQUAL_WITHIN, not range_b > EQUAL_WITHIN
    # Equal scores count 0.5 each (S-30): an infinite range makes them 0, and their share is added to all.
    constant = (0.5 * alpha if flat_v else 0.0) + (0.5 * (1.0 - alpha) if flat_b else 0.0)
    combined = _combined(
        cosine,
        bm25,
        alpha,
        low_v,
        np.inf if flat_v else range_v,
        low_b,
        np.inf if flat_b else range_b,
        constant,
    )

    # A heap whose root is the worst of the best so far: lower score, or later in order.
    scores = np.empty(count)
    rows = np.empty(count, np.int64)
    size = 0
    for row in range(len(order)):
        score = combined[row]
        if (size == count and score < scores[0]) or (masked and not mask[row]):
            continue
        if size < count:
            place = size
            size += 1
            while place > 0:
                parent = (place - 1) >> 1
                if not _worse(score, order[row], scores[parent], order[rows[parent]]):
                    break
                scores[place], rows[place] = scores[parent], rows[parent]
                place = parent
            scores[place], rows[place] = score, row
        elif _worse(scores[0], order[rows[0]], score, order[row]):
            _sink(scores, rows, order, size, score, row)

    return _in_order(scores, rows, order, size, cosine, bm25, low_v, range_v, flat_v, low_b, range_b, flat_b)


@_vectorised
def _range(values):  # type: ignore[no-untyped-def]
    low = high = values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
    return np.float64(low), np.float64(high)


@_compiled
def _range_of_admitted(values, mask):  # type: ignore[no-untyped-def]
    low, high = np.inf, -np.inf
    for row in range(len(values)):
        if mask[row]:
            low, high = min(low, np.float64(values[row])), max(high, np.float64(values[row]))
    return low, high


@_vectorised
def _combined(cosine, bm25, alpha, low_v, range_v, low_b, range_b, constant):  # type: ignore[no-untyped-def]
    combined = np.empty(len(bm25))
    for row in range(len(bm25)):
        vector = (np.float64(cosine[row]) - low_v) / range_v
        lexical = (bm25[row] - low_b) / range_b
        combined[row] = (alpha * vector + (1.0 - alpha) * lexical) + constant
    return combined


@njit(cache=True, nogil=True, fastmath=True)
def _inner_products_of(vectors, rows, query):  # type: ignore[no-untyped-def]
    products = np.empty(len(rows), np.float32)
    for place in range(len(rows)):
        row = rows[place]
        product = np.float32(0.0)
        for i in range(len(query)):
            product += vectors[row, i] * query[i]
        products[place] = product
    return products


@_compiled
def _highest(scores, masked, mask, count):  # type: ignore[no-untyped-def]
    """A heap whose root is the lowest of the highest so far; the first of equals stay."""
    limit = min(count, len(scores))
    kept = np.full(limit, -np.inf)
    rows = np.full(limit, -1, np.int64)
    for row in range(len(scores)):
        score = scores[row]
        if score <= kept[0] or (masked and not mask[row]):
            continue
        place = 0
        while True:
            child = 2 * place + 1
            if child >= limit:
                break
            if child + 1 < limit and kept[child + 1] < kept[child]:
                child += 1
            if kept[child] >= score:
                break
            kept[place], rows[place] = kept[child], rows[child]
            place = child
        kept[place], rows[place] = score, row
    return rows[rows >= 0]


@_compiled
def _worse(score, position, other_score, other_position):  # type: ignore[no-untyped-def]
    return score < other_score or (score == other_score and position > other_position)


@_compiled
def _sink(scores, rows, order, size, score, row):  # type: ignore[no-untyped-def]
    """Put (score, row) in place of the heap's root."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other = child + 1
        if other < size and _worse(scores[other], order[rows[other]], scores[child], order[rows[child]]):
            child = other
        if not _worse(scores[child], order[rows[child]], score, order[row]):
            break
        scores[place], rows[place] = scores[child], rows[child]
        place = child
    scores[place], rows[place] = score, row


@_compiled
def _in_order(  # type: ignore[no-untyped-def]
    scores, rows, order, size, cosine, bm25, low_v, range_v, flat_v, low_b, range_b, flat_b
):
    """Empty the heap from its worst to its best, and scale the scores of what it held."""
    best = np.empty(size, np.int64)
    combined = np.empty(size)
    vector = np.full(size, 0.5)
    lexical = np.full(size, 0.5)
    for place in range(size - 1, -1, -1):
        best[place], combined[place] = rows[0], scores[0]
        _sink(scores, rows, order, place, scores[place], rows[place])
    for place in range(size):
        if not flat_v:
            vector[place] = (np.float64(cosine[best[place]]) - low_v) / range_v
        if not flat_b:
            lexical[place] = (bm25[best[place]] - low_b) / range_b
    return best, vector, lexical, combined, range_v if size else 0.0
