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

_EVERY_ROW = np.ones(1, np.bool_)
_KINDS = [
    np.dtype(kind)
    for kind in (*[np.int32] * 3, np.float32, np.int8, np.float32, np.float32, np.int64, np.bool_, np.float64)
]


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
    columns = (
        postings.rows,
        postings.counts,
        cut.lengths,
        cut.vectors,
        *cut.coarse,
        cut.order,
        _EVERY_ROW if mask is None else mask,
        np.array([average, variant.k1, variant.b, variant.gain]),
    )
    for column, kind in zip(columns, _KINDS, strict=True):
        if column.dtype != kind or not column.flags.c_contiguous:
            raise TypeError(f"a column of {kind} without gaps is needed, not one of {column.dtype}")
    sizes = (*cut.vectors.shape, len(postings.rows), total, mask is not None, variant.floored)
    words = np.array([*sizes, *(column.ctypes.data for column in columns)], np.int64)
    return Frame(words, len(cut.order), columns)
