"""What finds the chunks of one collection, and how it stays at what the database holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context
from typing import Protocol

from chassis.logging import get_logger
from services.search.domain.collection import ChunkRef, Collection, Writing
from services.search.domain.collection_errors import CollectionNotFound
from services.search.domain.query import Ranking
from services.search.usecases.ports import CollectionStore
from services.search.usecases.search_playbook import Ask, RankEntries

log = get_logger(__name__)


class ChunkIndex(Protocol):
    """An index over the chunks of one collection, in whichever backend."""

    @property
    def revision(self) -> int:
        """The collection's revision that it holds; 0 for none."""
        ...

    async def open(self) -> None:
        """Take up where it was left. Raises `BackendUnreachable`."""
        ...

    async def chunks(self) -> int:
        """How many chunks it holds. Raises `BackendUnreachable`."""
        ...

    async def take(self, writings: Sequence[Writing]) -> None:
        """Take up these writings, in ascending order of their revisions. Raises `BackendUnreachable`."""
        ...

    async def search(self, rank: RankEntries, ask: Ask) -> Ranking[ChunkRef]:
        """The best chunks; `rank` embeds as the collection's model does.

        Raises `EmbeddingFailed`, `WrongVector`, `BackendUnreachable`; `CollectionNotFound` if they go meanwhile.
        """
        ...

    async def clear(self) -> None:
        """Hold nothing any more, for good or to be filled again. Raises `BackendUnreachable`."""
        ...

    async def keep(self) -> None:
        """Keep what it holds for the next run."""
        ...

    async def tend(self) -> None:
        """Keep what it holds if that is due, and prepare for queries over as many chunks as there are by now."""
        ...


class FollowedCollection:
    """The index of one collection. It takes up what the database holds beyond it, whenever it is asked for."""

    def __init__(self, collection: Collection, store: CollectionStore, index: ChunkIndex) -> None:
        self._collection = collection
        self._store = store
        self._index = index
        self._checked = False
        self._running: asyncio.Task[None] | None = None

    async def at(self, collection: Collection) -> ChunkIndex:
        """The index, once it holds `collection` as it stands. Raises what `ChunkIndex` and `CollectionStore` raise.

        All who wait wait for one and the same work, which goes on when one of them has no more time.
        """
        while not self._checked or self._index.revision < collection.revision:
            if self._running is None or self._running.done():
                # It outlives the call that began it, so it must not run under that call's deadline.
                task = self._catch_up(collection)
                self._running = asyncio.get_running_loop().create_task(task, context=Context())
            await asyncio.shield(self._running)
        return self._index

    async def keep(self) -> None:
        """Keep a snapshot, where there are any."""
        if self._checked:
            await self._index.keep()

    async def tend(self) -> None:
        """See `ChunkIndex.tend`."""
        if self._checked:
            await self._index.tend()

    async def clear(self) -> None:
        """Forget everything: the collection is deleted."""
        await self.stop()
        await self._index.clear()

    async def stop(self) -> None:
        """Stop taking up."""
        if self._running is not None:
            self._running.cancel()
            # Whoever waits for it gets what it failed with.
            await asyncio.gather(self._running, return_exceptions=True)

    async def _catch_up(self, collection: Collection) -> None:
        if not self._checked:
            await self._index.open()
            if self._index.revision > collection.revision:
                log.warning("index is ahead of the database; rebuilding it", collection=collection.name)
                await self._index.clear()
        await self._take_up_to(collection)
        comparable = not self._checked and self._index.revision == collection.revision
        if comparable and await self._index.chunks() != collection.chunks:
            log.warning("index differs from the database; rebuilding it", collection=collection.name)
            await self._index.clear()
            await self._take_up_to(collection)
        self._checked = True

    async def _take_up_to(self, collection: Collection) -> None:
        while self._index.revision < collection.revision:
            writings = await self._store.writings(collection, self._index.revision)
            if not writings:
                raise CollectionNotFound(collection.name)  # deleted meanwhile
            await self._index.take(writings)
