"""Loads the compiled loops, which takes half a second, and some more when they are compiled for the first time."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from chassis.logging import get_logger
from services.search.domain import loops as numpy_loops
from services.search.domain.fusion import EQUAL_WITHIN, SINGLE_PRECISION_NOISE, Fusion, Int64s, RankedRows
from services.search.domain.loops import NUMPY_LOOPS, Loops, VectorRows, Words
from services.search.domain.postings import Mask
from services.search.domain.vectors import Float32s
from services.search.domain.view import LoopsInUse

log = get_logger(__name__)

EVERY_ROW = np.empty(0, np.bool_)
"""Stands for a mask where there is none."""


def load_loops(is_stopped: Callable[[], bool] = lambda: False) -> Loops:
    """Return the compiled loops; those in NumPy where numba is missing, or if loading was stopped."""
    if find_spec("numba") is None:
        log.info("numba is not installed; NumPy computes queries")
        return NUMPY_LOOPS
    from services.search.adapters.loops import compiled

    for loop, signature in compiled.SIGNATURES.items():
        if is_stopped():
            return NUMPY_LOOPS
        if not loop.signatures:
            loop.compile(signature)
            loop.disable_compile()  # else it would be compiled anew for arrays that may be written

    def rank_rows(
        vectors: VectorRows, words: Words, query: Float32s, mask: Mask | None, fusion: Fusion, count: int
    ) -> RankedRows:
        # NumPy does what is rare: reciprocal ranks, long rankings, and cosines that float32 cannot tell apart.
        if fusion.method != "minmax" or count > len(vectors.order) // 4:
            return numpy_loops.rank_rows(vectors, words, query, mask, fusion, count)
        admitted = EVERY_ROW if mask is None else mask
        ranked = RankedRows(*compiled.rank_rows(*vectors, *words, query, admitted, fusion.alpha, count))
        if EQUAL_WITHIN < ranked.spread <= SINGLE_PRECISION_NOISE:
            return numpy_loops.rank_rows(vectors, words, query, mask, fusion, count)
        return ranked

    def best_by_words(words: Words, mask: Mask | None, count: int) -> Int64s:
        if len(words.weights) and words.weights.min() < 0.0:  # then what a list adds at most is not known
            return numpy_loops.best_by_words(words, mask, count)
        rows: Int64s = compiled.best_by_words(*words, EVERY_ROW if mask is None else mask, count)
        return rows

    return Loops(rank_rows, best_by_words, compiled.count_admitted)


class LoopsLoader:
    """Loads the compiled loops while NumPy answers, and puts them to use."""

    def __init__(self, in_use: LoopsInUse) -> None:
        self._in_use = in_use
        self._stopped = False

    def load(self) -> None:
        """Load the loops and put them to use."""
        self._in_use.loops = load_loops(lambda: self._stopped)

    def stop(self) -> None:
        """Compile no further loop: a process that ends would wait for it, and on a busy machine for minutes."""
        self._stopped = True
