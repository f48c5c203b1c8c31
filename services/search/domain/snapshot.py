"""What is kept of an index, so that a restart goes on where the last run stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from services.search.domain.items import Items, Kept
from services.search.domain.query import ItemT

KeptT = TypeVar("KeptT", bound=Kept)


@dataclass(frozen=True, eq=False, slots=True)
class IndexState(Generic[ItemT]):
    """The living entries of an index, one row each, in the order of their rows; the arrays are `HybridIndex`'s."""

    revision: int
    ids: Sequence[str]
    items: Items[ItemT]
    terms: Sequence[str]
    facets: Sequence[str]
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class IndexSnapshot(Generic[KeptT]):
    """An index at one revision; of a playbook also its order and the bullets that have a place but are not served.

    ``index`` is None while there never was anything to find.
    """

    revision: int
    order: Sequence[str]
    hidden: Sequence[KeptT]
    index: IndexState[KeptT] | None


class Snapshots(Protocol[KeptT]):
    """Keeps one snapshot of each index, by name. The methods may take long and are called from a thread."""

    def load(self, name: str) -> IndexSnapshot[KeptT] | None:
        """Return the snapshot; None if there is none, or none that can be used."""
        ...

    def save(self, name: str, snapshot: IndexSnapshot[KeptT]) -> None:
        """Keep this one from now on; when that fails, the one before is still kept."""
        ...

    def forget(self, name: str) -> None:
        """Keep none any more."""
        ...
