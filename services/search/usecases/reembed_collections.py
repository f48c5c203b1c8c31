"""The cut-over of collections to the current embedding model.

The next generation of a collection copies its documents as they are written, with new vectors. When the generation and
its index have the revision of the collection, it replaces the collection in one transaction. Until then the former
model serves all calls; no collection ever holds vectors of both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from chassis.errors import HanseiError
from chassis.logging import get_logger
from libs.embedding.embedder import TextEmbedder
from services.search.domain.collection import Collection, DocumentRevision
from services.search.domain.collection_errors import CollectionNotFound
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.ports import CollectionStore

log = get_logger(__name__)

PAUSE_SECONDS = 10.0
PAGE_SIZE = 100


class ReembedCollections:
    """Embeds once the collections of other models that exist at the start.

    It does not look for later ones: replicas with different models must not undo each other's work.
    """

    def __init__(
        self,
        store: CollectionStore,
        indexes: CollectionIndexes,
        embedder: TextEmbedder,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._embedder = embedder
        self._sleep = sleep

    async def __call__(self) -> None:
        """Embed all of them; after a pause, try again those that failed."""
        while (pending := await self._find_collections()) is None:
            await self._sleep(PAUSE_SECONDS)
        while pending := [collection for collection in pending if not await self._try_reembed(collection)]:
            await self._sleep(PAUSE_SECONDS)

    async def _find_collections(self) -> list[Collection] | None:
        """Return the collections of other models; None if the database does not answer."""
        found: list[Collection] = []
        after = ""
        try:
            while page := await self._store.list_collections(after, PAGE_SIZE):
                found += [collection for collection in page if collection.model != self._embedder.model.model_id]
                after = page[-1].name
        except HanseiError as error:
            log.warning("finding collections to embed again failed; trying again later", error=str(error))
            return None
        return found

    async def _try_reembed(self, collection: Collection) -> bool:
        """Return whether nothing is left to do for the collection."""
        try:
            await self._embed_and_cut_over(collection)
        except CollectionNotFound:
            log.info(
                "re-embedding stopped: another replica finished it, or the collection was deleted",
                collection=collection.name,
            )
        except HanseiError as error:
            log.warning(
                "re-embedding of a collection failed; trying again later", collection=collection.name, error=str(error)
            )
            return False
        return True

    async def _embed_and_cut_over(self, collection: Collection) -> None:
        model = self._embedder.model.model_id
        generation = await self._store.begin_generation(collection, model)
        log.info(
            "embedding a collection by another model",
            collection=collection.name,
            former_model=collection.model,
            model=model,
        )
        while True:
            while revisions := await self._store.read_revisions(collection, generation.revision):
                generation = await self._store.copy_documents(collection, generation, await self._embed(revisions))
            await self._indexes.get_index(generation)
            if await self._store.cut_over(collection, generation):
                await self._indexes.drop(collection)
                log.info("collection was cut over to the new model", collection=collection.name, model=model)
                return

    async def _embed(self, document_revisions: Sequence[DocumentRevision]) -> list[DocumentRevision]:
        """Return the revisions with new vectors; deletions have none."""
        texts = [document.text[slice(*span)] for document in document_revisions for span in document.spans]
        vectors = await self._embedder.embed_documents(texts)
        embedded: list[DocumentRevision] = []
        start = 0
        for document in document_revisions:
            end = start + len(document.spans)
            embedded.append(document if document.vectors is None else document._replace(vectors=vectors[start:end]))
            start = end
        return embedded
