"""What an index finds, by row; what a snapshot kept is read when somebody asks for it.

Most of what is searched is never found: to read all of it would be the longest part of a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, cast

from services.search.domain.query import ItemT


class Kept(Protocol):
    """What an index with snapshots finds: it has an id and can be told from bytes."""

    @property
    def id(self) -> str:
        """Id of its entry."""
        ...

    @property
    def origin(self) -> bytes:
        """All of it, to be read back."""
        ...


class Unread(bytes):
    """The origin of an item that nobody has asked for yet."""

    __slots__ = ()


class Items(Generic[ItemT]):
    """Items by row. One writer appends while readers look on."""

    def __init__(self, held: Sequence[ItemT | Unread] = (), read: Callable[[bytes], ItemT] | None = None) -> None:
        self._held: list[Any] = list(held)
        self._read = read

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, row: int) -> ItemT:
        held = self._held[row]
        return self._read_item(row, held) if type(held) is Unread else cast(ItemT, held)

    def get_all(self, rows: Sequence[int]) -> list[ItemT]:
        """Return the item of each of these rows."""
        held = self._held
        items = [held[row] for row in rows]
        return [self[row] for row in rows] if Unread in map(type, items) else items

    def _read_item(self, row: int, origin: Unread) -> ItemT:
        """Read the row's item, once."""
        if self._read is None:
            raise TypeError("items that are kept unread need to be read")
        item = self._held[row] = self._read(origin)
        return item

    def extend(self, items: Iterable[ItemT]) -> None:
        """Write the items of the next rows."""
        self._held.extend(items)

    def is_at(self, row: int, item: ItemT) -> bool:
        """Return whether the row holds just this item."""
        held = self._held[row]
        return bool(held == (cast(Kept, item).origin if type(held) is Unread else item))

    def select(self, rows: Sequence[int] | None = None) -> Items[ItemT]:
        """Return a copy of these rows; None selects all."""
        return Items(self._held if rows is None else [self._held[row] for row in rows], self._read)

    def origins(self) -> list[bytes]:
        """Return the origin of every item, which must be of the kind that snapshots keep."""
        return [held if type(held) is Unread else held.origin for held in self._held]
