"""Collections in a SQLite file: the errors for a damaged, full or read-only file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event

from libs.storage.database import Database
from libs.storage.errors import StoreCorrupt, StoreFull
from services.search.adapters.sql.queries import INLINE_CHARACTERS
from services.search.adapters.sql.repository import CollectionRepository, open_collection_database
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, ChunkedDocument, ChunkRef, Collection, Document
from services.search.domain.collection_errors import CollectionNotFound, InvalidDocument

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def chunk(name: str, text: str = "some text", dimension: int = 4) -> ChunkedDocument:
    document = Document(name, text, (("lang", "en"),))
    half = len(text) // 2
    vectors = np.arange(2 * dimension, dtype=np.float32).reshape(2, dimension)
    return ChunkedDocument(document, document.digest, [TextSpan(0, half), TextSpan(half, len(text))], vectors)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = open_collection_database(str(tmp_path / "search.db"))
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def store(database: Database) -> CollectionRepository:
    return CollectionRepository(database, lambda: NOW)


async def create_collection(store: CollectionRepository) -> Collection:
    return await store.create("c", Backend.HYBRID, Chunking(100, 10), "model")


async def test_written_documents_are_read_back(store: CollectionRepository) -> None:
    collection = await create_collection(store)
    assert (collection.created_at, collection.chunking) == (NOW, Chunking(100, 10))
    stored = await store.write_documents(collection, [chunk("a", "日本語の本文"), chunk("b")])
    assert (stored.stored, stored.unchanged, stored.chunks) == (2, 0, 4)
    assert (stored.collection.revision, stored.collection.chunks, stored.collection.dimension) == (2, 4, 4)
    first = (await store.read_revisions(collection, 0))[0]
    assert (first.document_id, first.revision, first.text, first.spans) == ("a", 1, "日本語の本文", [(0, 3), (3, 6)])
    assert first.vectors is not None
    assert first.vectors.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert await store.read_revisions(collection, 2) == []
    refs = [ChunkRef("a", 1, 1), ChunkRef("b", 2, 0), ChunkRef("b", 1, 0)]
    found = await store.read_passages(collection, refs)
    assert {ref: passage.text for ref, passage in found.items()} == {refs[0]: "の本文", refs[1]: "some"}


@pytest.mark.parametrize("characters", [INLINE_CHARACTERS, INLINE_CHARACTERS + 2])
async def test_a_passage_of_a_long_text_is_the_same(store: CollectionRepository, characters: int) -> None:
    collection, text = await create_collection(store), "長い😀文" * (characters // 4) + "終り"[: characters % 4]
    await store.write_documents(collection, [chunk("a", text)])
    found = await store.read_passages(collection, [ChunkRef("a", 1, 0), ChunkRef("a", 1, 1)])
    assert [passage.text for passage in found.values()] == [text[: len(text) // 2], text[len(text) // 2 :]]


async def test_no_read_walks_through_the_collection(store: CollectionRepository, database: Database) -> None:
    collection = await create_collection(store)
    await store.write_documents(collection, [chunk("a"), chunk("b", "long " * 5_000)])
    plans: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        steps = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
        plans.extend(step[3] for step in steps if " document " in step[3])

    event.listen(database._read_engine, "before_cursor_execute", explain)
    await store.read_passages(collection, [ChunkRef("a", 1, 1), ChunkRef("b", 2, 0)])
    await store.read_digests(collection, ["a", "b"])
    await store.read_document("c", "a")
    await store.list_documents("c", "a", 10)
    await store.read_revisions(collection, 1)
    assert len(plans) == 6
    assert all(plan.startswith("SEARCH ") and "collection=? AND " in plan for plan in plans), plans


async def test_a_deletion_is_a_writing_without_text(store: CollectionRepository) -> None:
    collection = await create_collection(store)
    await store.write_documents(collection, [chunk("a"), chunk("b")])
    deleted, left = await store.delete_documents("c", ["a", "nobody"])
    assert (deleted, left.revision, left.documents, left.chunks) == (1, 3, 1, 2)
    gone = (await store.read_revisions(collection, 2))[0]
    assert (gone.document_id, gone.revision, gone.vectors) == ("a", 3, None)
    assert (await store.delete_documents("c", ["a"]))[0] == 0
    back = await store.write_documents(collection, [chunk("a")])
    assert (back.stored, back.collection.revision, back.collection.documents) == (1, 4, 2)


async def test_another_dimension_that_came_first_is_noticed_when_it_is_written(store: CollectionRepository) -> None:
    collection = await create_collection(store)
    await store.write_documents(collection, [chunk("a", dimension=4)])
    with pytest.raises(InvalidDocument, match='document "b": chunks must have vectors of dimension 4, not 5'):
        await store.write_documents(collection, [chunk("b", dimension=5)])
    assert (await store.get("c")).revision == 1


async def test_a_recreated_collection_is_another_collection(store: CollectionRepository) -> None:
    old = await create_collection(store)
    await store.write_documents(old, [chunk("a")])
    await store.drop("c")
    new = await create_collection(store)
    assert new.number > old.number
    assert new.key != old.key
    with pytest.raises(CollectionNotFound):
        await store.write_documents(old, [chunk("b")])
    assert await store.read_revisions(new, 0) == []


async def test_a_full_disk_writes_nothing_and_what_was_written_stays(
    store: CollectionRepository, database: Database
) -> None:
    collection = await create_collection(store)
    await store.write_documents(collection, [chunk("a")])
    await database.write(limited_to(4))
    with pytest.raises(StoreFull, match=r"the disk of the document store .*search.db is full: nothing was written"):
        await store.write_documents(collection, [chunk("b"), chunk("large", "x" * 1_000_000)])
    assert [summary.id for summary in await store.list_documents("c", "", 10)] == ["a"]
    await database.write(limited_to(100_000))
    assert (await store.write_documents(collection, [chunk("large", "x" * 1_000_000)])).collection.revision == 2


def limited_to(pages: int) -> Callable[[Any], Any]:
    """Make the disk look full: pages a file may have beyond those it has."""

    def limit_rows(connection: Any) -> None:
        now = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={now + pages}")

    return limit_rows


async def test_a_damaged_file_is_data_loss(tmp_path: Path) -> None:
    database = open_collection_database(str(tmp_path / "search.db"))
    await database.open()
    store = CollectionRepository(database)
    await create_collection(store)
    await database.close()
    with sqlite3.connect(tmp_path / "search.db") as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'collection'").fetchone()
    connection.close()
    with (tmp_path / "search.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    again = open_collection_database(str(tmp_path / "search.db"))
    await again.open()
    with pytest.raises(StoreCorrupt, match="is damaged"):
        await CollectionRepository(again).get("c")
    await again.close()
