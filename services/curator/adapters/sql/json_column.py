"""Domain objects in columns, as JSON without their defaults; compressed in the log."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cachetools import LRUCache
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import LargeBinary, Text
from sqlalchemy.types import TypeDecorator

from chassis.field_errors import describe_rule
from libs.storage.errors import UndecodableRow

T = TypeVar("T")


class JsonColumn(TypeDecorator[T], Generic[T]):
    """A column of immutable objects of one class. Reading one that does not parse raises UndecodableRow.

    Texts of up to `cached_characters` in all are cached with their objects, because a bullet is read and written again
    soon: it is in the fold and in its changes.
    """

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[T], cached_characters: int = 0) -> None:
        super().__init__()
        self.kind = kind
        self.cached_characters = cached_characters
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)
        self._by_text: LRUCache[str, tuple[T, str]] = LRUCache(cached_characters, _count_characters)
        self._by_identity: LRUCache[int, tuple[T, str]] = LRUCache(cached_characters, _count_characters)
        self._lock = threading.Lock()

    def clear_cache(self) -> None:
        """Drop the cached texts."""
        with self._lock:
            self._by_text.clear()
            self._by_identity.clear()

    def process_bind_param(self, value: T | None, dialect: Any) -> str | None:
        """Return the stored text."""
        if value is None:
            return None
        return self._get_or_create(self._by_identity, id(value), lambda: (value, self._encode(value)))[1]

    def process_result_value(self, value: Any, dialect: Any) -> T | None:
        """Return the object."""
        if value is None:
            return None
        return self._get_or_create(self._by_text, value, lambda: (self._decode(value), value))[0]

    def _encode(self, value: T) -> str:
        return self._adapter.dump_json(value, exclude_defaults=True).decode()

    def _decode(self, text: str) -> T:
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            # The message must not contain the input, which is a user's text.
            message = f"a stored {self.kind.__name__} does not parse: {describe_rule(error.errors()[0])}"
            raise UndecodableRow(message) from error

    def _get_or_create(
        self, cache: LRUCache[Any, tuple[T, str]], key: Any, create: Callable[[], tuple[T, str]]
    ) -> tuple[T, str]:
        with self._lock:
            entry = cache.get(key)
        if entry is None:
            entry = create()
            if len(entry[1]) <= self.cached_characters:
                with self._lock:
                    # The entry refers to its object, so that no other object can get its identity.
                    self._by_text[entry[1]] = self._by_identity[id(entry[0])] = entry
        return entry


class CompressedColumn(TypeDecorator[T], Generic[T]):
    """A binary column of the objects of a `JsonColumn`, whose cache it shares.

    The texts are compressed with a preset dictionary of what most of them contain: they are short, and differ little.
    """

    impl = LargeBinary
    cache_ok = True

    def __init__(self, column: JsonColumn[T], dictionary: bytes = b"") -> None:
        super().__init__()
        self.column = column
        self.dictionary = dictionary

    def process_bind_param(self, value: T | None, dialect: Any) -> bytes | None:
        """Return the stored bytes."""
        text = self.column.process_bind_param(value, dialect)
        if text is None:
            return None
        compressor = zlib.compressobj(level=6, wbits=-zlib.MAX_WBITS, zdict=self.dictionary)
        return compressor.compress(text.encode()) + compressor.flush()

    def process_result_value(self, value: Any, dialect: Any) -> T | None:
        """Return the object."""
        if value is None:
            return None
        try:
            decompressor = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=self.dictionary)
            text = (decompressor.decompress(bytes(value)) + decompressor.flush()).decode()
        except (zlib.error, TypeError, UnicodeDecodeError) as error:
            problem = f"a stored {self.column.kind.__name__} cannot be decompressed: restore a backup of the database"
            raise UndecodableRow(problem) from error
        return self.column.process_result_value(text, dialect)


def _count_characters(entry: tuple[object, str]) -> int:
    return len(entry[1])
