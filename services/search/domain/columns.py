"""Arrays that only grow, so that readers need no lock.

A row once written is never changed. Growing copies the rows into a larger array and leaves the old one to the readers
that hold it; the writer writes only behind the rows that any reader has been shown.
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
        self._shape: tuple[int, ...] = () if width is None else (width,)
        self.array: NDArray[Any] = np.empty((0, *self._shape), dtype)
        self.used = 0

    @classmethod
    def of(cls, array: NDArray[Any]) -> Column:
        """A column that starts with the rows of `array`, which it does not copy until it grows."""
        column = cls(array.dtype)
        column._shape = array.shape[1:]
        column.array = array
        column.used = len(array)
        return column

    def append(self, rows: Any) -> None:
        """Write `rows` (an array or a sequence) behind the last row."""
        end = self.used + len(rows)
        if end > len(self.array):
            self.array = grown(self.array, self.used, end)
        self.array[self.used : end] = rows
        self.used = end

    def extended(self, count: int) -> NDArray[Any]:
        """The next `count` rows, which the caller writes before anybody is shown them."""
        start, end = self.used, self.used + count
        if end > len(self.array):
            self.array = grown(self.array, start, end)
        self.used = end
        return self.array[start:end]

    def push(self, row: Any) -> None:
        """Write one row behind the last row."""
        if self.used == len(self.array):
            self.array = grown(self.array, self.used, self.used + 1)
        self.array[self.used] = row
        self.used += 1

    @property
    def rows(self) -> NDArray[Any]:
        """The rows written so far, as a view."""
        return self.array[: self.used]


def grown(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """A larger array of at least `needed` rows that begins with the first `used` rows of `array`."""
    capacity = max(FIRST_CAPACITY, needed, int(used * GROWTH))
    larger = np.empty((capacity, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger
