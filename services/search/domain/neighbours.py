"""Approximate nearest neighbours, which preselect among more rows than a query can score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from services.search.domain.fusion import Int64s
from services.search.domain.postings import Mask
from services.search.domain.vectors import Float32s

TOLERATED_SHARE = 16
"""Rows outside the neighbour index are scored exactly up to this share of all; beyond it, all rows are."""

EXTENDED_SHARE = 64
"""The neighbour index is extended when it lacks this share of all rows."""


class NeighbourIndex(Protocol):
    """An index of the vectors of the rows below `covered`. It is immutable. Many threads may search it."""

    @property
    def covered_rows(self) -> int:
        """Return the number of rows, from the first, that the index covers."""

    def is_outgrown_by(self, rows: int) -> bool:
        """Return whether the number of rows requires that the index is trained again."""

    def select(self, mask: Mask | None) -> Any:
        """Return a selection for `search` of the rows that the mask admits; None admits every row."""

    def search(self, query: Float32s, count: int, selection: Any) -> Int64s:
        """Return about `count` nearest rows, and one of the farthest, in any order."""

    def extend(self, units: Float32s) -> NeighbourIndex:
        """Return an index that also covers the next rows, which have these unit vectors."""

    def renumber(self, alive: Mask) -> NeighbourIndex:
        """Return an index of the live rows only, with new numbers in the same order."""

    def export(self) -> dict[str, NDArray[Any]]:
        """Return the index as arrays."""


BuildNeighbours = Callable[[Float32s, Int64s, int], NeighbourIndex]
"""Builds an index of these rows of the unit vectors, which covers the first `covered` rows."""
