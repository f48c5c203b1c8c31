"""How the index of a collection stays at what the database holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import pytest

from services.search.domain.chunking import Chunking, Span
from services.search.domain.collection import Backend, Collection, Writing
from services.search.domain.collection_errors import CollectionNotFound
from services.search.usecases.chunk_index import ChunkIndex, FollowedCollection
from services.search.usecases.ports import CollectionStore

EMPTY = Collection(1, "k", "c", Backend.HYBRID, Chunking(), "m", datetime(2026, 1, 1, tzinfo=UTC))


class Log:
    """The writings of a collection, two at a time."""

    def __init__(self, *names: str) -> None:
        vector = np.ones((1, 2), np.float32)
        self.writings_ = [Writing(name, n, (), name, [Span(0, 1)], vector) for n, name in enumerate(names, 1)]
        self.go_on = asyncio.Event()
        self.go_on.set()

    @property
    def collection(self) -> Collection:
        return replace(EMPTY, revision=len(self.writings_), chunks=len(self.writings_))

    async def writings(self, collection: Collection, after: int) -> list[Writing]:
        await self.go_on.wait()
        return [writing for writing in self.writings_ if writing.revision > after][:2]


class Index:
    """An index that remembers what it took, and can begin with something."""

    def __init__(self, revision: int = 0, held: int = 0) -> None:
        self.revision = 0
        self.found = (revision, held)
        self.held = 0
        self.taken: list[list[str]] = []
        self.cleared = 0

    async def open(self) -> None:
        self.revision, self.held = self.found

    async def chunks(self) -> int:
        return self.held

    async def take(self, writings: Sequence[Writing]) -> None:
        self.taken.append([writing.document_id for writing in writings])
        self.revision = writings[-1].revision
        self.held += len(writings)

    async def clear(self) -> None:
        self.revision, self.held, self.cleared = 0, 0, self.cleared + 1


def followed(log: Log, index: Index) -> FollowedCollection:
    return FollowedCollection(log.collection, cast(CollectionStore, log), cast(ChunkIndex, index))


async def test_it_takes_up_what_is_new_and_nothing_else() -> None:
    log, index = Log("a", "b", "c"), Index()
    follower = followed(log, index)
    assert cast(Any, await follower.at(log.collection)) is index
    assert index.taken == [["a", "b"], ["c"]]
    await follower.at(log.collection)
    log.writings_.append(log.writings_[0]._replace(document_id="d", revision=4))
    await follower.at(log.collection)
    assert index.taken == [["a", "b"], ["c"], ["d"]]


async def test_after_a_restart_it_goes_on_from_the_snapshot() -> None:
    log, index = Log("a", "b", "c"), Index(revision=2, held=2)
    await followed(log, index).at(log.collection)
    assert (index.taken, index.cleared) == ([["c"]], 0)


@pytest.mark.parametrize(("revision", "held"), [(9, 3), (3, 2), (2, 5)], ids=["ahead", "too few", "too many"])
async def test_a_snapshot_that_is_not_of_this_database_is_built_anew(revision: int, held: int) -> None:
    log, index = Log("a", "b", "c"), Index(revision, held)
    await followed(log, index).at(log.collection)
    assert (index.cleared, index.revision, index.held) == (1, 3, 3)
    assert index.taken[-2:] == [["a", "b"], ["c"]]


async def test_all_wait_for_one_work_which_outlives_the_first_of_them() -> None:
    log, index = Log("a", "b", "c"), Index()
    log.go_on.clear()
    follower = followed(log, index)
    first, second = (asyncio.create_task(follower.at(log.collection)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    log.go_on.set()
    await second
    assert first.cancelled()
    assert index.taken == [["a", "b"], ["c"]]


async def test_a_collection_that_is_deleted_meanwhile_is_named() -> None:
    log, index = Log("a"), Index()
    expected = log.collection
    log.writings_.clear()
    with pytest.raises(CollectionNotFound):
        await followed(log, index).at(expected)
