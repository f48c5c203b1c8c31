"""Loads are cut into batches, and each batch is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chassis.server.cpu import CpuPool
from services.search.adapters.sql.repository import CollectionRepository, open_collection_database
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, ClientChunk, Document, DocumentRevision
from services.search.usecases import load_documents
from services.search.usecases.chunk_documents import ChunkDocuments
from services.search.usecases.chunk_index import ChunkIndex
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.embedders import Embedders
from services.search.usecases.load_documents import LoadDocuments, LoadItem, collect_batches
from services.search.usecases.put_documents import PutDocuments


async def send(documents: Sequence[LoadItem]) -> AsyncIterator[LoadItem]:
    for document in documents:
        yield document


async def collect(documents: Sequence[LoadItem]) -> list[list[LoadItem]]:
    return [batch async for batch in collect_batches(send(documents))]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=60))
def test_batches_hold_everything_in_order_and_each_id_once(numbers: list[int]) -> None:
    documents = [Document(f"d{number}", str(position)) for position, number in enumerate(numbers)]
    found = asyncio.run(collect(documents))
    assert [document for batch in found for document in batch] == documents
    for batch in found:
        assert batch
        assert len({document.id for document in batch}) == len(batch)


async def test_a_batch_is_bounded_in_documents_text_and_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_documents, "BATCH_DOCUMENTS", 4)
    monkeypatch.setattr(load_documents, "BATCH_CHARACTERS", 100)
    monkeypatch.setattr(load_documents, "BATCH_VECTOR_BYTES", 64)

    async def sizes(documents: Sequence[Document]) -> list[int]:
        return [len(batch) for batch in await collect(documents)]

    assert await sizes([Document(str(n), "x") for n in range(10)]) == [4, 4, 2]
    assert await sizes([Document(str(n), "x" * 40) for n in range(5)]) == [2, 2, 1]
    assert await sizes([Document(str(n), "x" * 500) for n in range(3)]) == [1, 1, 1]
    chunk = ClientChunk(TextSpan(0, 1), "m", np.ones(8, np.float32))
    assert await sizes([Document(str(n), "x", (), [chunk]) for n in range(5)]) == [2, 2, 1]


async def test_a_batch_does_not_wait_for_a_slow_sender() -> None:
    more = asyncio.Event()

    async def slow() -> AsyncIterator[LoadItem]:
        yield Document("first", "x")
        await more.wait()
        yield Document("second", "x")

    found: list[list[str]] = []
    async for batch in collect_batches(slow(), linger=0.0):
        found.append([document.id for document in batch])
        more.set()
    assert found == [["first"], ["second"]]


async def test_a_sender_that_breaks_off_breaks_the_load() -> None:
    async def fail() -> AsyncIterator[LoadItem]:
        yield Document("first", "x")
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        async for _ in collect_batches(fail()):
            pass


class NoIndex:
    """An index that ignores its content."""

    revision = 0

    async def open(self) -> None: ...

    async def count_chunks(self) -> int:
        return 0

    async def apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        self.revision = document_revisions[-1].revision

    async def clear(self) -> None:
        self.revision = 0


async def test_a_full_disk_fails_the_documents_of_its_batch_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_documents, "BATCH_DOCUMENTS", 2)
    database, pool = open_collection_database(str(tmp_path / "search.db")), CpuPool("cut", workers=1)
    await database.open()
    store = CollectionRepository(database)
    embedders = cast(Embedders, None)  # the documents have vectors
    indexes = CollectionIndexes(store, lambda _: cast(ChunkIndex, NoIndex()), 1)
    chunk_documents = ChunkDocuments(embedders, str.split, pool)
    load = LoadDocuments(store, PutDocuments(store, indexes, chunk_documents), chunk_documents)
    await store.create("c", Backend.HYBRID, Chunking(), "m")

    def document(name: str, size: int = 1) -> Document:
        return Document(name, "x" * size, (), [ClientChunk(TextSpan(0, 1), "m", np.ones(4, np.float32))])

    await database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=40"))
    documents = [document("a"), document("b"), document("c"), document("large", 500_000), document("d")]
    reports = [progress async for progress in load("c", send(documents))]
    assert [(progress.processed, progress.stored, progress.failed) for progress in reports] == [
        (2, 2, 0),
        (4, 2, 2),
        (5, 3, 2),
    ]
    failures = reports[1].failures
    assert [(f.position, f.id, f.error.reason) for f in failures] == [
        (2, "c", "STORE_FULL"),
        (3, "large", "STORE_FULL"),
    ]
    assert [summary.id for summary in await store.list_documents("c", "", 10)] == ["a", "b", "d"]
    await pool.close()
    await database.close()
