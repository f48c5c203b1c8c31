"""A scope as one array of numbers: its sizes, and where its columns lie in memory.

Every argument of a compiled loop is unpacked anew for each call, and in a server, whose caches hold other things by
then, that takes as long as many a loop. So what stays the same from query to query is put together once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.search.domain.kernels import Int64s, Scope

# What stands where: sizes, then addresses.
ROWS, WIDTH, PLACES, TOTAL, MASKED, FLOORED = range(6)
LIST_ROWS, LIST_COUNTS, LENGTHS, VECTORS, CODES, SCALES, ERRORS, ORDER, MASK, NUMBERS = range(6, 16)
# What stands where among the `NUMBERS`.
AVERAGE, K1, B, GAIN = range(4)

EVERY_ROW = np.ones(1, np.bool_)
"""Stands for a mask where there is none."""


class Frame(NamedTuple):
    """What the loops read: ``words``, which is good for as long as the ``columns`` are whose addresses it holds."""

    words: Int64s
    rows: int
    columns: tuple[NDArray[Any], ...]


def framed(scope: Scope) -> Frame | None:
    """The frame of a scope; None where there is nothing to compare."""
    cut, postings, mask, total, average, variant = scope
    if not average:
        return None
    of_kinds: tuple[tuple[NDArray[Any], type[np.generic]], ...] = (
        (postings.rows, np.int32),
        (postings.counts, np.int32),
        (cut.lengths, np.int32),
        (cut.vectors, np.float32),
        (cut.coarse.codes, np.int8),
        (cut.coarse.scales, np.float32),
        (cut.coarse.errors, np.float32),
        (cut.order, np.int64),
        (EVERY_ROW if mask is None else mask, np.bool_),
        (np.array([average, variant.k1, variant.b, variant.gain]), np.float64),
    )
    for number, (column, kind) in enumerate(of_kinds):
        if column.dtype != kind or not column.flags.c_contiguous:
            gaps = "" if column.flags.c_contiguous else " with gaps"
            raise TypeError(f"column {number}: {kind.__name__} without gaps is needed, not {column.dtype}{gaps}")
    columns = tuple(column for column, _ in of_kinds)
    sizes = (*cut.vectors.shape, len(postings.rows), total, mask is not None, variant.floored)
    words = np.array([*sizes, *(column.ctypes.data for column in columns)], np.int64)
    return Frame(words, len(cut.order), columns)
