"""Loads the compiled loops. That takes half a second, and longer when they are compiled for the first time."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from chassis.logging import get_logger
from services.search.domain import loops as numpy_loops
from services.search.domain.fusion import EQUAL_WITHIN, SINGLE_PRECISION_NOISE, Fusion, Int64s, RankedRows
from services.search.domain.loops import (
    NO_REFINEMENT,
    NUMPY_LOOPS,
    Loops,
    Refinement,
    VectorRows,
    WeightedTerms,
)
from services.search.domain.postings import Mask
from services.search.domain.vectors import Float32s
from services.search.domain.view import LoopsInUse

log = get_logger(__name__)

EVERY_ROW = np.empty(0, np.bool_)
"""Replaces a mask of None."""


def load_loops(is_stopped: Callable[[], bool] = lambda: False) -> Loops:
    """Return the compiled loops; those in NumPy where numba is missing, or if loading was stopped."""
    if find_spec("numba") is None:
        log.info("numba is not installed; using the NumPy loops")
        return NUMPY_LOOPS
    from services.search.adapters.loops import numba_loops

    for loop, signature in numba_loops.SIGNATURES.items():
        if is_stopped():
            return NUMPY_LOOPS
        if not loop.signatures:
            loop.compile(signature)
            loop.disable_compile()  # otherwise it would be compiled again for writable arrays

    def rank_rows(
        vectors: VectorRows,
        words: WeightedTerms,
        query: Float32s,
        mask: Mask | None,
        fusion: Fusion,
        count: int,
        refinement: Refinement = NO_REFINEMENT,
    ) -> RankedRows:
        if _is_computed_by_numpy(fusion, max(count, refinement.rows), len(vectors.order)):
            return numpy_loops.rank_rows(vectors, words, query, mask, fusion, count, refinement)
        admitted = EVERY_ROW if mask is None else mask
        ranked = RankedRows(
            *numba_loops.rank_rows(*vectors, *words, query, admitted, fusion.alpha, fusion.rise, count, *refinement)
        )
        if _is_noise(ranked):
            return numpy_loops.rank_rows(vectors, words, query, mask, fusion, count, refinement)
        return ranked

    def rank_pool(
        vectors: VectorRows,
        words: WeightedTerms,
        query: Float32s,
        pool: Int64s,
        fusion: Fusion,
        count: int,
        refinement: Refinement = NO_REFINEMENT,
    ) -> RankedRows:
        if _is_computed_by_numpy(fusion, max(count, refinement.rows), len(pool)):
            return numpy_loops.rank_pool(vectors, words, query, pool, fusion, count, refinement)
        ranked = RankedRows(
            *numba_loops.rank_pool(
                vectors.units, vectors.order, *words, query, pool, fusion.alpha, fusion.rise, count, *refinement
            )
        )
        if _is_noise(ranked):
            return numpy_loops.rank_pool(vectors, words, query, pool, fusion, count, refinement)
        return ranked

    def select_best_by_words(words: WeightedTerms, mask: Mask | None, count: int) -> Int64s:
        if len(words.weights) and words.weights.min() < 0.0:  # then the most that a list adds is unknown
            return numpy_loops.select_best_by_words(words, mask, count)
        rows: Int64s = numba_loops.select_best_by_words(*words[:-2], EVERY_ROW if mask is None else mask, count)
        return rows

    return Loops(rank_rows, rank_pool, select_best_by_words, numba_loops.count_admitted)


def _is_computed_by_numpy(fusion: Fusion, count: int, rows: int) -> bool:
    """Return whether NumPy computes a ranking: reciprocal ranks, and long rankings, which are rare."""
    return fusion.method != "minmax" or count > rows // 4


def _is_noise(ranked: RankedRows) -> bool:
    """Return whether float32 cannot distinguish the cosines of a ranking, so that NumPy computes it again."""
    return EQUAL_WITHIN < ranked.spread <= SINGLE_PRECISION_NOISE


class LoopsLoader:
    """Loads the compiled loops while NumPy computes queries, and replaces NumPy's."""

    def __init__(self, in_use: LoopsInUse) -> None:
        self._in_use = in_use
        self._is_stopped = False

    def load(self) -> None:
        """Load the loops and activate them. NumPy goes on where they cannot be compiled, as without a cache folder."""
        try:
            self._in_use.loops = load_loops(lambda: self._is_stopped)
        except Exception:  # the compiler depends on versions, processor and file system
            log.warning("compiled loops cannot be loaded; using the NumPy loops", exc_info=True)

    def stop(self) -> None:
        """Compile no further loop: the end of the process would wait for it, on a busy machine for minutes."""
        self._is_stopped = True
