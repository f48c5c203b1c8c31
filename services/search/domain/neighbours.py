"""Approximate nearest neighbours: what chooses among more rows than a query can score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from services.search.domain.fusion import Int64s
from services.search.domain.postings import Mask
from services.search.domain.vectors import Float32s

TOLERATED_SHARE = 16
"""Rows that neighbours do not cover are scored one by one, up to this share of all; beyond, every row is."""

EXTENDED_SHARE = 64
"""Neighbours take up the rows that they do not cover as soon as these are this share of all."""


class Neighbours(Protocol):
    """An index of the vectors of the rows below `covered`. It never changes, and may be searched by many threads."""

    @property
    def covered(self) -> int:
        """Return below which number it knows the rows."""
        ...

    def is_outgrown_by(self, rows: int) -> bool:
        """Return whether so many rows deserve an index that is trained anew."""
        ...

    def select(self, mask: Mask | None) -> Any:
        """Return a selection for `search` of the rows that the mask admits; None admits every row."""
        ...

    def search(self, query: Float32s, count: int, selection: Any) -> Int64s:
        """Return about `count` nearest rows, and one of the farthest, in any order."""
        ...

    def extend(self, units: Float32s) -> Neighbours:
        """Return an index that also knows the next rows, which have these unit vectors."""
        ...

    def renumber(self, alive: Mask) -> Neighbours:
        """Return an index of these rows alone, numbered anew in their order."""
        ...

    def export(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays."""
        ...


BuildNeighbours = Callable[[Float32s, Int64s, int], Neighbours]
"""Builds an index of these rows of the unit vectors, which covers so many rows."""
