"""The index of a collection catches up with the database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import pytest

from chassis.errors import ResourceExhausted
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, Collection, DocumentRevision
from services.search.domain.collection_errors import BackendMissing, CollectionNotFound
from services.search.usecases.chunk_index import ChunkIndex, CollectionFollower
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.ports import CollectionStore

EMPTY = Collection(1, "k", "c", Backend.HYBRID, Chunking(), "m", datetime(2026, 1, 1, tzinfo=UTC))


class Log:
    """The revisions of a collection, two at a time."""

    def __init__(self, *names: str) -> None:
        vector = np.ones((1, 2), np.float32)
        self.document_revisions = [
            DocumentRevision(name, n, (), name, [TextSpan(0, 1)], vector) for n, name in enumerate(names, 1)
        ]
        self.unblocked = asyncio.Event()
        self.unblocked.set()

    @property
    def collection(self) -> Collection:
        return replace(EMPTY, revision=len(self.document_revisions), chunks=len(self.document_revisions))

    async def read_revisions(self, collection: Collection, after: int) -> list[DocumentRevision]:
        await self.unblocked.wait()
        return [
            document_revision for document_revision in self.document_revisions if document_revision.revision > after
        ][:2]


class Index:
    """An index that records applied revisions, and may begin with a saved state."""

    def __init__(self, revision: int = 0, chunks: int = 0) -> None:
        self.revision = 0
        self.saved_state = (revision, chunks)
        self.chunks = 0
        self.applied: list[list[str]] = []
        self.cleared = 0

    async def open(self) -> None:
        self.revision, self.chunks = self.saved_state

    async def count_chunks(self) -> int:
        return self.chunks

    async def apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        self.applied.append([document_revision.document_id for document_revision in document_revisions])
        self.revision = document_revisions[-1].revision
        self.chunks += len(document_revisions)

    async def clear(self) -> None:
        self.revision, self.chunks, self.cleared = 0, 0, self.cleared + 1


def create_follower(log: Log, index: Index) -> CollectionFollower:
    return CollectionFollower(log.collection, cast(CollectionStore, log), cast(ChunkIndex, index))


async def test_a_chunk_index_adds_only_new_chunks() -> None:
    log, index = Log("a", "b", "c"), Index()
    follower = create_follower(log, index)
    assert cast(Any, await follower.get_index(log.collection)) is index
    assert index.applied == [["a", "b"], ["c"]]
    await follower.get_index(log.collection)
    log.document_revisions.append(log.document_revisions[0]._replace(document_id="d", revision=4))
    await follower.get_index(log.collection)
    assert index.applied == [["a", "b"], ["c"], ["d"]]


async def test_after_a_restart_it_continues_from_the_snapshot() -> None:
    log, index = Log("a", "b", "c"), Index(revision=2, chunks=2)
    await create_follower(log, index).get_index(log.collection)
    assert (index.applied, index.cleared) == ([["c"]], 0)


@pytest.mark.parametrize(("revision", "chunks"), [(9, 3), (3, 2), (2, 5)], ids=["ahead", "too few", "too many"])
async def test_a_snapshot_of_another_database_is_rebuilt(revision: int, chunks: int) -> None:
    log, index = Log("a", "b", "c"), Index(revision, chunks)
    await create_follower(log, index).get_index(log.collection)
    assert (index.cleared, index.revision, index.chunks) == (1, 3, 3)
    assert index.applied[-2:] == [["a", "b"], ["c"]]


async def test_concurrent_callers_share_one_update_that_outlives_the_first() -> None:
    log, index = Log("a", "b", "c"), Index()
    log.unblocked.clear()
    follower = create_follower(log, index)
    first, second = (asyncio.create_task(follower.get_index(log.collection)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    log.unblocked.set()
    await second
    assert first.cancelled()
    assert index.applied == [["a", "b"], ["c"]]


async def test_a_caller_outlives_the_stop_of_an_evicted_index() -> None:
    log, index = Log("a", "b", "c"), Index()
    log.unblocked.clear()
    follower = create_follower(log, index)
    waiting = asyncio.create_task(follower.get_index(log.collection))
    await asyncio.sleep(0)
    await follower.stop()
    log.unblocked.set()
    await waiting
    assert index.revision == 3


async def test_an_eviction_whose_snapshot_fails_fails_no_search() -> None:
    class UnsavedIndex(Index):
        async def save_snapshot(self) -> None:
            raise ResourceExhausted("worker pool queue is full")

    log = Log("a")
    indexes = CollectionIndexes(cast(CollectionStore, log), lambda _: cast(ChunkIndex, UnsavedIndex()), capacity=1)
    for key in ("k1", "k2", "k3"):
        assert (await indexes.get_index(replace(log.collection, key=key))).revision == 1


async def test_a_collection_is_deleted_also_if_its_backend_is_no_longer_configured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(collection: Collection) -> ChunkIndex:
        raise BackendMissing(collection.backend.name)

    log = Log("a")
    await CollectionIndexes(cast(CollectionStore, log), refuse, capacity=1).drop(log.collection)
    assert "index of a deleted collection could not be removed" in caplog.text


async def test_a_collection_that_is_deleted_meanwhile_is_named() -> None:
    log, index = Log("a"), Index()
    expected = log.collection
    log.document_revisions.clear()
    with pytest.raises(CollectionNotFound):
        await create_follower(log, index).get_index(expected)
