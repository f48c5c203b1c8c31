"""Collections whose vectors another model made are embedded anew, and change over at once.

The successor of a collection follows its log like any index does: it copies what was written since, with vectors of its
own. When it stands where the collection stands, and its index does too, it takes the collection's place in one
transaction. Until then everything goes on with the former model; no collection ever holds vectors of both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from chassis.errors import HanseiError
from chassis.logging import get_logger
from libs.embedding.embedder import TextEmbedder
from services.search.domain.collection import Collection, Writing
from services.search.domain.collection_errors import CollectionNotFound
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.ports import CollectionStore

log = get_logger(__name__)

PAUSE_SECONDS = 10.0
COLLECTIONS_AT_ONCE = 100


class ReembedCollections:
    """Works through what a start finds, once: replicas with different models do not undo each other's work."""

    def __init__(
        self,
        store: CollectionStore,
        indexes: CollectionIndexes,
        embed: TextEmbedder,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._embed = embed
        self._sleep = sleep

    async def __call__(self) -> None:
        """Embed all of them anew; what fails is tried again after a pause."""
        while (waiting := await self._found()) is None:
            await self._sleep(PAUSE_SECONDS)
        while waiting := [collection for collection in waiting if not await self._done(collection)]:
            await self._sleep(PAUSE_SECONDS)

    async def _found(self) -> list[Collection] | None:
        """The collections of other models; None if the database does not say."""
        try:
            return [collection async for collection in self._of_other_models()]
        except HanseiError as error:
            log.warning("looking for collections of other models failed; trying again later", error=str(error))
            return None

    async def _done(self, collection: Collection) -> bool:
        """Whether nothing is left to do for the collection."""
        try:
            await self._reembed(collection)
        except CollectionNotFound:
            log.info("collection was deleted, or another replica embedded it", collection=collection.name)
        except HanseiError as error:
            log.warning(
                "embedding a collection again failed; trying again later", collection=collection.name, error=str(error)
            )
            return False
        return True

    async def _of_other_models(self) -> AsyncIterator[Collection]:
        after = ""
        while page := await self._store.page(after, COLLECTIONS_AT_ONCE):
            for collection in page:
                if collection.model != self._embed.model.model_id:
                    yield collection
            after = page[-1].name

    async def _reembed(self, collection: Collection) -> None:
        model = self._embed.model.model_id
        successor = await self._store.next_generation(collection, model)
        log.info(
            "embedding a collection by another model",
            collection=collection.name,
            former_model=collection.model,
            model=model,
        )
        while True:
            while writings := await self._store.writings(collection, successor.revision):
                successor = await self._store.copy_documents(collection, successor, await self._embedded(writings))
            await self._indexes.at(successor)
            if await self._store.cut_over(collection, successor):
                await self._indexes.drop(collection)
                log.info("collection answers by the new model", collection=collection.name, model=model)
                return

    async def _embedded(self, writings: Sequence[Writing]) -> list[Writing]:
        """The writings with new vectors, where they have any."""
        texts = [writing.text[slice(*span)] for writing in writings for span in writing.spans]
        vectors = await self._embed.embed_documents(texts)
        embedded: list[Writing] = []
        start = 0
        for writing in writings:
            own = vectors[start : start + len(writing.spans)]
            embedded.append(writing if writing.vectors is None else writing._replace(vectors=own))
            start += len(writing.spans)
        return embedded
