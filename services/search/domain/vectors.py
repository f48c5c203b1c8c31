"""The vectors of an index: unit vectors, and beside them their coarse form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from services.search.domain.coarse import Coarse, Float32s, coarse_of
from services.search.domain.columns import grown
from services.search.domain.ranking import Floats, unit


def store_vectors(given: Floats | Float32s, at: int, units: Float32s, coarse: Coarse) -> bool:
    """Write vectors of any length as unit vectors, zero ones unchanged, and their coarse form, from row `at` on.

    False if a value is not finite; what then stands from there on is meaningless.
    """
    if not np.isfinite(given).all():
        return False
    rows = slice(at, at + len(given))
    units[rows] = unit(given.astype(np.float64))
    coarse.codes[rows], coarse.scales[rows], coarse.errors[rows] = coarse_of(units[rows])
    return True


StoreVectors = Callable[[Floats | Float32s, int, Float32s, Coarse], bool]
"""`store_vectors`, or a faster one that does the same."""


class Vectors:
    """The writer's side: rows are only appended."""

    def __init__(self, width: int, store: StoreVectors = store_vectors) -> None:
        self.width = width
        self._store = store
        self._used = 0
        self._units = np.empty((0, width), np.float32)
        self._coarse = Coarse(np.empty((0, width), np.int8), np.empty(0, np.float32), np.empty(0, np.float32))

    @classmethod
    def of(cls, units: Float32s, coarse: Coarse, store: StoreVectors = store_vectors) -> Vectors:
        """These vectors, which are not copied until more come."""
        vectors = cls(units.shape[1], store)
        vectors._used, vectors._units, vectors._coarse = len(units), units, coarse
        return vectors

    def append(self, given: Floats | Float32s) -> bool:
        """Write vectors behind the last one; False if a value is not finite, and then nothing has changed."""
        if not len(given):
            return True  # what a snapshot holds is read only, until there is something to write
        end = self._used + len(given)
        if end > len(self._units):
            self._units = grown(self._units, self._used, end)
            self._coarse = Coarse(*(grown(column, self._used, end) for column in self._coarse))
        if not self._store(given, self._used, self._units, self._coarse):
            return False
        self._used = end
        return True

    def since(self, row: int) -> Float32s:
        """The unit vectors from this row on."""
        return self._units[row : self._used]

    def first(self, count: int) -> tuple[Float32s, Coarse]:
        """The first unit vectors and coarse rows."""
        codes, scales, errors = self._coarse
        return self._units[:count], Coarse(codes[:count], scales[:count], errors[:count])
