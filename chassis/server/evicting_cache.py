"""A cache of things that must be stopped when they are evicted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from cachetools import Cache, LRUCache

T = TypeVar("T")


class EvictingCache(LRUCache[str, T]):
    """An LRU cache that passes each evicted value to `on_evict`."""

    def __init__(self, capacity: int, on_evict: Callable[[T], object]) -> None:
        super().__init__(capacity)
        self._on_evict = on_evict

    def popitem(self) -> tuple[str, T]:
        """Evict the least recently used value."""
        key, value = super().popitem()
        self._on_evict(value)
        return key, value

    def peek_values(self) -> list[T]:
        """Return the values; this counts as no use of them. Safe in any thread."""
        values: list[T] = []
        for key in list(self):
            with suppress(KeyError):  # evicted meanwhile
                values.append(Cache.__getitem__(self, key))
        return values
