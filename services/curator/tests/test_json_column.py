"""Bullets in text columns: recently written or read values are neither encoded nor parsed again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from libs.storage.errors import UndecodableRow
from services.curator.adapters.sql.json_column import CompressedColumn, JsonColumn
from services.curator.domain.log import Stamp, StoredBullet
from services.curator.domain.merge import join_sources
from services.curator.domain.playbook import MAX_SOURCES, Bullet, Source

AT = Stamp(1, datetime(2026, 1, 2, tzinfo=UTC))


def make_stored(content: str) -> StoredBullet:
    return StoredBullet(0, Bullet(id="a", section="s", content=content, searchable_text=content), AT, AT, 1)


def test_a_text_is_parsed_once_and_an_object_encoded_once() -> None:
    column = JsonColumn(StoredBullet, cached_characters=10_000)
    value = make_stored("one")
    text = column.process_bind_param(value, None)
    assert text is not None
    assert column.process_result_value(str(text.encode(), "utf-8"), None) is value
    assert column.process_bind_param(value, None) is text
    fresh = JsonColumn(StoredBullet, cached_characters=10_000)
    first = fresh.process_result_value(text, None)
    assert first == value
    assert fresh.process_result_value(text, None) is first


def test_the_cache_is_bounded_and_returns_no_stale_values() -> None:
    column = JsonColumn(StoredBullet, cached_characters=1_000)
    for number in range(100):
        value = make_stored(f"lesson {number}")
        assert column.process_result_value(column.process_bind_param(value, None), None) == value
    long = make_stored("x" * 2_000)
    assert column.process_result_value(column.process_bind_param(long, None), None) == long
    for _ in range(2):
        with pytest.raises(UndecodableRow, match="a stored StoredBullet does not parse"):
            column.process_result_value("x", None)


def test_sources_are_joined_by_trajectory_up_to_the_bound() -> None:
    sources = tuple(Source(trajectory=f"t{number}", steps=(number,)) for number in range(MAX_SOURCES - 1))
    again = join_sources(sources, (Source(trajectory="t1", steps=(7, 1, 7)),))
    assert again[1] == Source(trajectory="t1", steps=(1, 7))
    assert again[2:] == sources[2:]
    assert join_sources(sources, (Source(trajectory="t1", steps=(1,)),)) == sources
    full = join_sources(sources, (Source(trajectory="new", steps=(3, 3)),))
    assert full[-1] == Source(trajectory="new", steps=(3,))
    assert join_sources(full, (Source(trajectory="one more"),)) == full


def test_a_compressed_column_returns_what_was_stored_and_names_damage() -> None:
    column = CompressedColumn(JsonColumn(StoredBullet, cached_characters=10_000), b'"content":"lesson ')
    value = make_stored("lesson 1, and 日本語 " * 50)
    stored = column.process_bind_param(value, None)
    assert stored is not None
    assert len(stored) < 300
    assert column.process_result_value(memoryview(stored), None) == value
    assert column.process_bind_param(None, None) is None
    assert column.process_result_value(None, None) is None
    for damaged in (b"x", stored[:-5], "text"):
        with pytest.raises(UndecodableRow, match="a stored StoredBullet"):
            column.process_result_value(damaged, None)
