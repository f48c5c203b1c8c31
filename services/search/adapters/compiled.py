"""The kernels at the speed of the machine: FAISS for plain scans of vectors, compiled loops for the rest.

FAISS's inner product runs directly over the index's own rows: nothing is copied, rows may be memory-mapped, and each
product is computed alone, so equal rows give equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from services.search.adapters.frames import EVERY_ROW, Frame, framed
from services.search.domain.bm25 import OKAPI, Variant
from services.search.domain.coarse import Coarse
from services.search.domain.kernels import Cut, Float32s, Floats, Fused, Int64s, Mask, NumpyKernels, Scope
from services.search.domain.postings import Int32s, Lists, Pool, PostingsView, Regions

# FAISS exports its distance functions under their C++ names, unknown to its type stubs.
_faiss: Any = faiss
# Comparing with the type itself makes a dtype of it each time.
_FLOAT32 = np.dtype(np.float32)


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
    """FAISS for the products of everything, compiled loops for the rest.

    Until `warm` has loaded the compiler and the loops, which takes half a second, it computes as NumPy does.
    """

    def __init__(self) -> None:
        self._loops: Any = None
        self._writing: Any = None
        self._given_up = False

    @classmethod
    def warmed(cls) -> CompiledKernels:
        """Kernels whose loops are loaded."""
        kernels = cls()
        kernels.warm()
        return kernels

    def warm(self) -> None:
        """Compile the loops, or load what an earlier process compiled."""
        from services.search.adapters import reading_loops, writing_loops

        trial = CompiledKernels()
        trial._loops, trial._writing = reading_loops, writing_loops
        for _ in trial._tried():
            if self._given_up:
                return
        self._loops, self._writing = reading_loops, writing_loops

    @property
    def warmed_up(self) -> bool:
        """Whether the loops are in use."""
        return self._loops is not None

    def give_up(self) -> None:
        """Compile no further loop: a process that ends would wait for it, and on a busy machine for minutes."""
        self._given_up = True

    def _tried(self) -> Iterator[None]:
        """Runs the loops, each once."""
        ones, one = np.ones(1, np.int32), np.ones((8, 1), np.float32)
        postings = PostingsView({}, ones - 1, ones, np.ones(1, np.int64))
        lists = postings.numbered([0])
        order, flat = np.arange(8), np.ones(8)
        coarse = Coarse(np.ones((8, 1), np.int8), np.ones(8, np.float32), np.zeros(8, np.float32))
        self.store_vectors(one, 0, one.copy(), coarse)
        yield
        for mask in (None, np.ones(8, np.bool_)):
            self.idf(lists, 1, mask, 1, OKAPI)
            yield
            self.highest(flat, mask, 1)
            yield
            self.best(one[:, 0], flat, order, mask, 0.5, 1)
            yield
            self.best_of_all(one, coarse, one[0], flat, order, mask, 0.5, 1)
            yield
            cut = Cut(order, flat, ones.repeat(8), order, one, coarse)
            scope = Scope(cut, postings, mask, 1, 1.0, OKAPI)
            self.answer(self.framed(scope), lists.regions, flat[:1], one[0], 0.5, 1)
            yield
        self.bm25(lists, np.ones(1), ones, 1.0, OKAPI)
        yield
        self.append_postings(0, ones - 1, ones, Pool(ones, ones), np.zeros(1, np.int64), np.ones(1, np.int64), 1)
        yield

    def inner_products_of(self, vectors: Float32s, rows: Int64s, query: Float32s) -> Float32s:
        """See `Kernels`. FAISS has this too, but starts OpenMP threads for it, which costs more than it saves."""
        if self._loops is None:
            return super().inner_products_of(vectors, rows, query)
        products: Float32s = self._loops.inner_products_of(vectors, rows, query)
        return products

    def highest(self, scores: Floats, mask: Mask | None, count: int) -> Int64s:
        """See `Kernels`."""
        if self._loops is None or not len(scores):
            return super().highest(scores, mask, count)
        best: Int64s = self._loops.highest(scores, *_admitted(mask), count)
        return best

    def idf(self, lists: Lists, rows: int, mask: Mask | None, total: int, variant: Variant) -> Floats:
        """See `Kernels`."""
        if self._loops is None:
            return super().idf(lists, rows, mask, total, variant)
        idf: Floats = self._loops.idf(lists.rows, lists.regions, rows, *_admitted(mask), total, variant.floored)
        return idf

    def bm25(
        self, lists: Lists, weights: Floats, lengths: NDArray[np.int32], average: float, variant: Variant
    ) -> Floats:
        """See `Kernels`."""
        if self._loops is None:
            return super().bm25(lists, weights, lengths, average, variant)
        scores: Floats = self._loops.bm25(*lists, weights, lengths, average, variant.k1, variant.b, variant.gain)
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
        if self._loops is None or count > len(order) // 4 or cosine.dtype != _FLOAT32:
            return super().best(cosine, bm25, order, mask, alpha, count)
        to_fill = _to_fill(count)
        return _fused(*to_fill, *self._loops.best(cosine, bm25, order, *_admitted(mask), alpha, count, *to_fill))

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
        """See `Kernels`. Only rows that a bound of their product does not rule out are multiplied exactly."""
        if self._loops is None or count > len(order) // 4:
            return super().best_of_all(vectors, coarse, query, bm25, order, mask, alpha, count)
        to_fill, fused_by = _to_fill(count), (bm25, order, *_admitted(mask), alpha, count)
        return _fused(*to_fill, *self._loops.best_of_all(vectors, *coarse, query, *fused_by, *to_fill))

    def framed(self, scope: Scope) -> Frame | None:
        """See `Kernels`."""
        return framed(scope)

    def answer(
        self, frame: Frame | None, regions: Int64s, times: Floats, query: Float32s, alpha: float, count: int
    ) -> Fused | None:
        """See `Kernels`. To enter a compiled loop takes as long as some of them run."""
        if self._loops is None or frame is None or count > frame.rows // 4:
            return None
        rows, scores = _to_fill(count)
        found, spread = self._loops.answer(frame.words, regions, times, query, alpha, count, rows, scores)
        return None if spread < 0.0 else _fused(rows, scores, found, spread)

    def store_vectors(self, given: Floats | Float32s, at: int, units: Float32s, coarse: Coarse) -> bool:
        """See `Kernels`."""
        if self._writing is None or given.dtype != _FLOAT32 or not given.flags.c_contiguous:
            return super().store_vectors(given, at, units, coarse)
        finite: bool = self._writing.store_vectors(given, at, units, *coarse)
        return finite

    def append_postings(
        self, row: int, numbers: Int32s, counts: Int32s, pool: Pool, regions: Regions, room: Int64s, used: int
    ) -> int:
        """See `Kernels`."""
        if self._writing is None:
            return super().append_postings(row, numbers, counts, pool, regions, room, used)
        places: int = self._writing.append_postings(row, numbers, counts, *pool, regions, room, used)
        return places


def _admitted(mask: Mask | None) -> tuple[bool, Mask]:
    return (False, EVERY_ROW) if mask is None else (True, mask)


def _to_fill(count: int) -> tuple[Int64s, Floats]:
    """Where a loop writes its `count` best rows and their scores."""
    return np.empty(count, np.int64), np.empty((5, count))


def _fused(rows: Int64s, scores: Floats, found: int, spread: float) -> Fused:
    return Fused(rows, scores, spread) if found == len(rows) else Fused(rows[:found], scores[:, :found], spread)
