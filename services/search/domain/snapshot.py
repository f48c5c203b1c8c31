"""The state of an index that the next run of the service continues with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from services.search.domain.items import Items, StoredItem
from services.search.domain.query import ItemT

StoredItemT = TypeVar("StoredItemT", bound=StoredItem)


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
class IndexSnapshot(Generic[StoredItemT]):
    """An index at one revision; of a playbook also its order and its retired bullets.

    ``index`` is None until there is a first entry. ``committed_at`` is when the revision was committed; None if that is
    unknown, and then the playbook is read from its start.
    """

    revision: int
    order: Sequence[str]
    retired: Sequence[StoredItemT]
    index: IndexState[StoredItemT] | None
    committed_at: datetime | None = None


class Snapshots(Protocol[StoredItemT]):
    """Stores one snapshot of each index, by name. The methods may take long and are called in a thread."""

    def load(self, name: str) -> IndexSnapshot[StoredItemT] | None:
        """Return the snapshot; None if there is none that can be used."""

    def save(self, name: str, snapshot: IndexSnapshot[StoredItemT]) -> None:
        """Replace the snapshot; when that fails, the former one stays."""

    def delete(self, name: str) -> None:
        """Delete the snapshot."""

    def delete_before(self, name: str, revision: int) -> None:
        """Delete the snapshot, unless it shows this revision or a later one."""

    def drop_cached_pages(self, name: str) -> None:
        """Drop the content of the snapshot from the memory of the operating system; nothing may use it any more."""
