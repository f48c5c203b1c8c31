"""The indexes of the collections that are asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from chassis.errors import HanseiError, Unavailable
from chassis.logging import get_logger
from services.search.domain.collection import Collection
from services.search.usecases.chunk_index import ChunkIndex, FollowedCollection
from services.search.usecases.ports import CollectionStore

log = get_logger(__name__)


class CollectionIndexes:
    """Holds the index of a collection from the first time it is asked for; the one idle longest makes room."""

    def __init__(self, store: CollectionStore, make: Callable[[Collection], ChunkIndex], most: int) -> None:
        self._store = store
        self._make = make
        self._most = most
        self._followed: OrderedDict[str, FollowedCollection] = OrderedDict()

    async def at(self, collection: Collection) -> ChunkIndex:
        """The index of `collection`, once it holds it as it stands."""
        followed = self._of(collection)
        while len(self._followed) > self._most:
            _, oldest = self._followed.popitem(last=False)
            await oldest.keep()
            await oldest.stop()
        return await followed.at(collection)

    async def drop(self, collection: Collection) -> None:
        """Forget a collection that was deleted."""
        followed = self._of(collection)
        del self._followed[collection.key]
        try:
            await followed.clear()
        except Unavailable as error:
            # Nobody will ask for it again: a collection made anew has another key.
            log.warning(
                "index of a deleted collection could not be removed", collection=collection.name, error=str(error)
            )

    async def keep_up(self, seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Keep snapshots of what has changed and build neighbours of what has grown, for ever, with pauses."""
        while True:
            await sleep(seconds)
            for followed in list(self._followed.values()):
                try:
                    await followed.tend()
                except HanseiError as error:
                    log.warning("updating the index of a collection failed; trying again later", error=str(error))

    async def keep(self) -> None:
        """Keep snapshots of what has changed."""
        for followed in list(self._followed.values()):
            await followed.keep()

    async def close(self) -> None:
        """Stop following."""
        for followed in self._followed.values():
            await followed.stop()
        self._followed.clear()

    def _of(self, collection: Collection) -> FollowedCollection:
        if collection.key not in self._followed:
            index = self._make(collection)
            self._followed[collection.key] = FollowedCollection(collection, self._store, index)
        self._followed.move_to_end(collection.key)
        return self._followed[collection.key]
