"""The items of an index by row. Items of a snapshot are parsed when they are found for the first time.

Most items are never found: to parse all of them would be the longest part of a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, cast

from services.search.domain.query import ItemT

ITEM_BYTES = 1_400
"""Bytes of a parsed item and of its entry without the lengths of its texts."""


class StoredItem(Protocol):
    """An item of an index with snapshots: it can be parsed from its bytes."""

    @property
    def id(self) -> str:
        """Return the id of its entry."""

    @property
    def serialized_form(self) -> bytes:
        """Return the item as bytes."""


class SerializedItem(bytes):
    """The bytes of an item that was not parsed yet."""

    __slots__ = ()


class Items(Generic[ItemT]):
    """Items by row. One writer appends while others read."""

    def __init__(
        self, values: Sequence[ItemT | SerializedItem] = (), parse: Callable[[bytes], ItemT] | None = None
    ) -> None:
        self._values: list[Any] = list(values)
        self._serialized_bytes = sum(map(_count_bytes, self._values))
        self._parse = parse

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, row: int) -> ItemT:
        value = self._values[row]
        return self._parse_item(row, value) if type(value) is SerializedItem else cast(ItemT, value)

    def get_all(self, rows: Sequence[int]) -> list[ItemT]:
        """Return the item of each of these rows."""
        items = [self._values[row] for row in rows]
        return [self[row] for row in rows] if SerializedItem in map(type, items) else items

    def _parse_item(self, row: int, serialized_form: SerializedItem) -> ItemT:
        """Parse the row's item, once."""
        if self._parse is None:
            raise TypeError("serialized items need a parser")
        item = self._values[row] = self._parse(serialized_form)
        return item

    def extend(self, items: Iterable[ItemT]) -> None:
        """Write the items of the next rows."""
        first = len(self._values)
        self._values.extend(items)
        self._serialized_bytes += sum(map(_count_bytes, self._values[first:]))

    @property
    def allocated_bytes(self) -> int:
        """Return the bytes of the items by estimate: a parsed one holds its texts beside its serialized form."""
        return ITEM_BYTES * len(self._values) + 3 * self._serialized_bytes

    def has_at(self, row: int, item: ItemT) -> bool:
        """Return whether the row has an equal item."""
        value = self._values[row]
        return bool(value == (cast(StoredItem, item).serialized_form if type(value) is SerializedItem else item))

    def select(self, rows: Sequence[int] | None = None) -> Items[ItemT]:
        """Return a copy of these rows; None selects all."""
        return Items(self._values if rows is None else [self._values[row] for row in rows], self._parse)

    def list_serialized_items(self) -> list[bytes]:
        """Return every item, serialized; all must be `StoredItem`s."""
        return [value if type(value) is SerializedItem else value.serialized_form for value in self._values]


def _count_bytes(item: object) -> int:
    return len(item if isinstance(item, SerializedItem) else getattr(item, "serialized_form", b""))
