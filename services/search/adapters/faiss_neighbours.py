"""Approximate nearest neighbours by FAISS: an inverted file of 8-bit vectors.

k-means gives centroids, every row is listed under its nearest one with its vector as 8-bit numbers, and a query looks
only into the lists of the centroids nearest to it (Jégou, Douze & Schmid, "Product Quantization for Nearest Neighbor
Search", PAMI 2011, section IV).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import faiss as untyped_faiss
import numpy as np
from numpy.typing import NDArray

from services.search.domain.neighbours import NeighbourIndex
from services.search.domain.postings import Int64s, Mask
from services.search.domain.vectors import Float32s

# The type stubs lack the methods that FAISS adds in Python.
faiss: Any = untyped_faiss

LISTS_PER_ROOT = 4
"""The number of lists is this many times the square root of the rows."""

SAMPLED_PER_LIST, TRAINING_ROUNDS = 48, 8
FAR_SHARE = 64
"""One of this many lists is searched for the farthest row; with fewer lists min-max would scale differently."""

OUTGROWN_BY = 2
"""An index that needs this many times as many lists is trained again: one that has grown fourfold."""

_BLOCK = 65_536
_THREADS = faiss.omp_get_max_threads()


class FaissNeighbours:
    """Implements `NeighbourIndex`; vector n of the index is that of row `rows[n]`, -1 for a deleted row."""

    def __init__(self, index: Any, rows: Int64s, covered_rows: int, probes: int) -> None:
        self._index = index
        self._rows = rows
        self._covered = covered_rows
        self._probes = probes
        self._has_deleted = bool(len(rows)) and int(rows.min()) < 0

    @property
    def covered_rows(self) -> int:
        """Return the number of rows, from the first, that the index covers."""
        return self._covered

    @classmethod
    def build(cls, units: Float32s, rows: Int64s, covered_rows: int, probes: int) -> NeighbourIndex:
        """Return an index of these rows of the unit vectors."""
        faiss.omp_set_num_threads(_THREADS)  # of this thread; a search here sets it to one
        rng = np.random.default_rng(0)
        lists = min(_count_lists(len(rows)), len(rows))
        quantizer = faiss.IndexFlatIP(units.shape[1])
        index = faiss.IndexIVFScalarQuantizer(
            quantizer, units.shape[1], lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.niter, index.cp.min_points_per_centroid = TRAINING_ROUNDS, 1
        index.cp.max_points_per_centroid = SAMPLED_PER_LIST
        sample = rng.choice(rows, min(len(rows), SAMPLED_PER_LIST * lists), replace=False)
        index.train(units[np.sort(sample)])
        _add(index, units, rows)
        return cls(index, rows, covered_rows, probes)

    def is_outgrown_by(self, rows: int) -> bool:
        """Return whether so many rows need many more lists, or most covered rows were deleted."""
        return _count_lists(rows) >= OUTGROWN_BY * self._index.nlist or len(self._rows) > 2 * rows

    def select(self, mask: Mask | None) -> Any:
        """Return a selection for `search` of the rows that the mask admits; None admits every row."""
        selector = None
        if mask is not None or self._has_deleted:
            admitted = self._rows >= 0
            if mask is not None:
                admitted &= mask[self._rows]
            selector = faiss.IDSelectorBitmap(np.packbits(admitted, bitorder="little"))
        far_probes = max(4, self._index.nlist // FAR_SHARE)
        return [faiss.SearchParametersIVF(nprobe=probes, sel=selector) for probes in (self._probes, far_probes)]

    def search(self, query: Float32s, count: int, selection: Any) -> Int64s:
        """Return about `count` nearest rows, and one of the farthest, in any order."""
        # Of this thread. More threads cost more than they gain: other queries need the processors.
        faiss.omp_set_num_threads(1)
        near_params, far_params = selection
        nearest = self._index.search(query[np.newaxis], count, params=near_params)[1][0]
        # The farthest is the nearest to the opposite vector.
        farthest = self._index.search(-query[np.newaxis], 1, params=far_params)[1][0]
        found = np.concatenate([nearest, farthest])
        rows: Int64s = self._rows[found[found >= 0]]
        return rows

    def extend(self, units: Float32s) -> NeighbourIndex:
        """Return an index that also covers the next rows, which have these unit vectors."""
        faiss.omp_set_num_threads(_THREADS)
        index = faiss.clone_index(self._index)
        _add(index, units, np.arange(len(units)))
        added = np.arange(self._covered, self._covered + len(units))
        return FaissNeighbours(index, np.concatenate([self._rows, added]), self._covered + len(units), self._probes)

    def renumber(self, alive: Mask) -> NeighbourIndex:
        """Return an index of the live rows only, with new numbers in the same order."""
        numbers = np.where(alive, np.cumsum(alive) - 1, -1)
        rows = np.where(self._rows >= 0, numbers[self._rows], -1)
        return FaissNeighbours(self._index, rows, int(np.count_nonzero(alive[: self._covered])), self._probes)

    def export(self) -> dict[str, NDArray[Any]]:
        """Return the index as arrays."""
        return {
            "index": faiss.serialize_index(self._index),
            "rows": self._rows,
            "covered": np.array([self._covered]),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], probes: int) -> NeighbourIndex:
        """Return the index of exported arrays."""
        index = faiss.deserialize_index(np.asarray(arrays["index"]))
        return cls(index, np.asarray(arrays["rows"]), int(arrays["covered"][0]), probes)


def _count_lists(rows: int) -> int:
    return max(1, LISTS_PER_ROOT * int(rows**0.5))


def _add(index: Any, units: Float32s, rows: Int64s) -> None:
    for start in range(0, len(rows), _BLOCK):
        index.add(units[rows[start : start + _BLOCK]])
