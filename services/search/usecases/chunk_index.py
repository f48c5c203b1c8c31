"""The index of the chunks of one collection, and how it reaches the revision of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context
from typing import Protocol

from chassis.logging import get_logger
from services.search.domain.collection import ChunkRef, Collection, DocumentRevision
from services.search.domain.collection_errors import CollectionNotFound
from services.search.domain.query import Ranking
from services.search.usecases.ports import CollectionStore
from services.search.usecases.rank_entries import RankEntries, RankingRequest

log = get_logger(__name__)


class ChunkIndex(Protocol):
    """An index of the chunks of one collection, in any backend. All methods raise `BackendUnreachable`."""

    @property
    def revision(self) -> int:
        """Return the collection's revision that the index has; 0 for none."""

    async def open(self) -> None:
        """Load the state that the last run left."""

    async def count_chunks(self) -> int:
        """Return the number of chunks in the index."""

    async def apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        """Apply these revisions, which are in ascending order."""

    async def search(self, rank: RankEntries, request: RankingRequest) -> Ranking[ChunkRef]:
        """Return the best chunks; `rank` embeds with the collection's model.

        Raises `EmbeddingFailed`, `WrongVector`; `CollectionNotFound` when the collection is deleted meanwhile.
        """

    async def clear(self) -> None:
        """Delete all chunks and the saved state."""

    async def save_snapshot(self) -> None:
        """Save the state for the next run."""

    async def maintain(self) -> None:
        """Save the state if that is due, and build the neighbour index if preselection needs it."""


class CollectionFollower:
    """Brings the index of one collection to the revision of the database, whenever the index is used."""

    def __init__(self, collection: Collection, store: CollectionStore, index: ChunkIndex) -> None:
        self._collection = collection
        self._store = store
        self._index = index
        self._is_checked = False
        self._running: asyncio.Task[None] | None = None

    async def get_index(self, collection: Collection) -> ChunkIndex:
        """Return the index as soon as it has the revision of `collection`.

        Raises the errors of `ChunkIndex` and `CollectionStore`. All callers wait for one task. The deadline of a
        caller ends its wait, not the task.
        """
        while not self._is_checked or self._index.revision < collection.revision:
            if self._running is None or self._running.done():
                # It outlives the call that starts it, so it must not run under its deadline.
                task = self._catch_up(collection)
                self._running = asyncio.get_running_loop().create_task(task, context=Context())
            running = self._running
            await asyncio.wait([running])
            if not running.cancelled():  # one that was stopped, because its index was evicted, begins again
                running.result()
        return self._index

    async def save_snapshot(self) -> None:
        """Save a snapshot, where the backend has any."""
        if self._is_checked:
            await self._index.save_snapshot()

    async def maintain(self) -> None:
        """See `ChunkIndex.maintain`."""
        if self._is_checked:
            await self._index.maintain()

    async def clear(self) -> None:
        """Stop, and delete all chunks."""
        await self.stop()
        await self._index.clear()

    async def stop(self) -> None:
        """Stop bringing the index up to date."""
        if self._running is not None:
            self._running.cancel()
            # Its failure is raised to the callers that wait for it.
            await asyncio.gather(self._running, return_exceptions=True)

    async def _catch_up(self, collection: Collection) -> None:
        if not self._is_checked:
            await self._index.open()
            if self._index.revision > collection.revision and not await self._is_stored(self._index.revision):
                log.warning("index is ahead of the database; rebuilding it", collection=collection.name)
                await self._index.clear()
        await self._apply_up_to(collection)
        comparable = not self._is_checked and self._index.revision == collection.revision
        if comparable and await self._index.count_chunks() != collection.chunks:
            log.warning("index differs from the database; rebuilding it", collection=collection.name)
            await self._index.clear()
            await self._apply_up_to(collection)
        self._is_checked = True

    async def _is_stored(self, revision: int) -> bool:
        """Return whether the database has reached the revision; another replica may have written it meanwhile."""
        return bool(await self._store.read_revisions(self._collection, revision - 1))

    async def _apply_up_to(self, collection: Collection) -> None:
        while self._index.revision < collection.revision:
            document_revisions = await self._store.read_revisions(collection, self._index.revision)
            if not document_revisions:
                raise CollectionNotFound(collection.name)  # deleted meanwhile
            await self._index.apply(document_revisions)
