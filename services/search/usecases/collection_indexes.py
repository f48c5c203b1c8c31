"""The indexes of the collections that are in use."""

from __future__ import annotations

from collections.abc import Callable

from chassis.errors import HanseiError, Unavailable
from chassis.logging import get_logger
from chassis.server.evicting_cache import EvictingCache
from services.search.domain.collection import Collection
from services.search.domain.collection_errors import BackendMissing
from services.search.usecases.chunk_index import ChunkIndex, CollectionFollower
from services.search.usecases.ports import CollectionStore

log = get_logger(__name__)


class CollectionIndexes:
    """Opens the index of a collection at its first use; beyond the capacity, closes the least recently used one."""

    def __init__(self, store: CollectionStore, create_index: Callable[[Collection], ChunkIndex], capacity: int) -> None:
        self._store = store
        self._create_index = create_index
        self._evicted: list[CollectionFollower] = []
        self._followers = EvictingCache[CollectionFollower](capacity, self._evicted.append)

    async def get_index(self, collection: Collection) -> ChunkIndex:
        """Return the index of a collection as soon as it has reached the revision of `collection`."""
        follower = self._get_follower(collection)
        await self._close_evicted()
        return await follower.get_index(collection)

    async def _close_evicted(self) -> None:
        while self._evicted:
            evicted = self._evicted.pop()
            try:
                await evicted.save_snapshot()
            except HanseiError as error:
                log.warning("snapshot of an evicted index could not be saved", error=str(error))
            finally:
                await evicted.stop()

    async def drop(self, collection: Collection) -> None:
        """Clear the index of a deleted collection."""
        try:
            follower = self._get_follower(collection)
            del self._followers[collection.key]
            await follower.clear()
        except (Unavailable, BackendMissing) as error:
            # Harmless: a new collection of the same name has another key.
            log.warning(
                "index of a deleted collection could not be removed", collection=collection.name, error=str(error)
            )

    async def maintain(self) -> None:
        """Save changed indexes and build the neighbours of grown ones."""
        for follower in self._followers.peek_values():
            try:
                await follower.maintain()
            except HanseiError as error:
                log.warning("updating the index of a collection failed; trying again later", error=str(error))

    async def save_snapshots(self) -> None:
        """Save snapshots of the changed indexes."""
        for follower in self._followers.peek_values():
            await follower.save_snapshot()

    async def close(self) -> None:
        """Stop following all collections."""
        for follower in self._followers.peek_values():
            await follower.stop()
        self._followers.clear()

    def _get_follower(self, collection: Collection) -> CollectionFollower:
        if collection.key not in self._followers:
            index = self._create_index(collection)
            self._followers[collection.key] = CollectionFollower(collection, self._store, index)
        return self._followers[collection.key]
