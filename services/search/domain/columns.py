"""Arrays that only grow, so that readers need no lock.

Written rows never change. Growing copies the rows into a larger array and leaves the old one to its readers; the writer
writes only after the rows that readers can see.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

GROWTH = 1.5
FIRST_CAPACITY = 64


class Column:
    """A growing array of shape (rows,) or, with `width`, (rows, width)."""

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self._array: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype)
        self._used = 0

    @classmethod
    def from_array(cls, array: NDArray[Any]) -> Column:
        """Return a column that begins with the rows of `array`; they are copied when it grows."""
        column = cls(array.dtype)
        column._array, column._used = array, len(array)
        return column

    def append(self, rows: Any) -> None:
        """Write `rows` (an array or a sequence) after the last row."""
        end = self._used + len(rows)
        self.reserve(len(rows))
        if len(rows):  # the array of a snapshot is read only
            self._array[self._used : end] = rows
        self._used = end

    def reserve(self, count: int) -> None:
        """Allocate memory for `count` further rows."""
        if self._used + count > len(self._array):
            self._array = grow(self._array, self._used, self._used + count)

    @property
    def allocated_bytes(self) -> int:
        """Return the bytes of the array, with its spare rows."""
        return self._array.nbytes

    @property
    def rows(self) -> NDArray[Any]:
        """Return the rows written so far, as a view."""
        return self._array[: self._used]


def grow(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """Return a larger array of at least `needed` rows that begins with the first `used` rows of `array`."""
    capacity = max(FIRST_CAPACITY, needed, int(used * GROWTH))
    larger = np.empty((capacity, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger
