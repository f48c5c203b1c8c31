"""The loops of `CompiledKernels` that write, compiled by numba: what `reading_loops` reads is made here."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from services.search.adapters.loops import compiled
from services.search.domain.coarse import LARGEST_CODE, ROUNDED_UP
from services.search.domain.postings import LENGTH, LENGTH_BITS

_compiled = compiled()
# Sums in any order, and infinities and NaN stay what they are.
_summed = compiled(fastmath={"reassoc"})
# Readers hold the GIL when they look at what these change.
_with_gil = compiled(nogil=False)


@_compiled
def store_vectors(given, at, units, codes, scales, errors):
    """`store_vectors` of the vectors, of float32 rows."""
    for number in range(len(given)):
        row = at + number
        length = _length(given[number])
        if not np.isfinite(length):
            return False
        largest = np.float32(0.0)
        for i in range(given.shape[1]):
            units[row, i] = np.float32(given[number, i] / length)
            largest = max(largest, abs(units[row, i]))
        scales[row] = largest / np.float32(LARGEST_CODE)
        errors[row] = _store_codes(units[row], codes[row], np.float64(scales[row]))
    return True


@_summed
def _length(vector):
    """The length of a vector, infinite or NaN if one of its values is; 1 for zeros."""
    square = 0.0
    for value in vector:
        square += np.float64(value) * np.float64(value)
    return math.sqrt(square) if square else 1.0


@_summed
def _store_codes(unit, codes, scale):
    """Write the codes; the length of what they leave out."""
    square = 0.0
    for i in range(len(unit)):
        code = np.rint(unit[i] / scale) if scale else 0.0
        codes[i] = np.int8(code)
        left_out = np.float64(unit[i]) - code * scale
        square += left_out * left_out
    return math.sqrt(square) * ROUNDED_UP


@_with_gil
def append_postings(row, numbers, counts, pool_rows, pool_counts, regions, room, used):
    """`append_postings` of the postings."""
    needed = used
    for number in numbers:
        if regions[number] & LENGTH == room[number]:
            needed += max(1, 2 * room[number])
    if needed > len(pool_rows):
        return -needed
    for place in range(len(numbers)):
        number = numbers[place]
        start, held = regions[number] >> LENGTH_BITS, regions[number] & LENGTH
        if held == room[number]:
            pool_rows[used : used + held] = pool_rows[start : start + held]
            pool_counts[used : used + held] = pool_counts[start : start + held]
            start, room[number] = used, max(1, 2 * held)
            used += room[number]
        pool_rows[start + held] = row
        pool_counts[start + held] = counts[place]
        regions[number] = start << LENGTH_BITS | held + 1
    return used
