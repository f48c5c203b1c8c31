"""Documents are put into a collection, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from services.search.domain.collection import Collection, Document, Stored
from services.search.domain.collection_errors import CollectionNotFound, InvalidDocument, PutTooLarge
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.cut_documents import CutDocuments
from services.search.usecases.ports import CollectionStore

MOST_CHARACTERS = 8_000_000
"""Text that one call, or one batch of a load, holds in memory."""


class PutDocuments:
    """Adds or replaces documents by id. What is the same already is neither cut, embedded nor written."""

    def __init__(self, store: CollectionStore, indexes: CollectionIndexes, cut: CutDocuments) -> None:
        self._store = store
        self._indexes = indexes
        self._cut = cut

    async def __call__(self, name: str, documents: Sequence[Document]) -> Stored:
        """Put these documents; when it returns they are durable, and searches find them.

        Raises `CollectionNotFound`, `InvalidDocument`, `PutTooLarge`, `EmbedderChanged`, `EmbeddingFailed`, and what
        the store raises; then nothing has changed. Raises `BackendUnreachable` when they are stored, but not indexed
        yet: that is made up for by the next call.
        """
        characters = sum(len(document.text) for document in documents)
        if characters > MOST_CHARACTERS:
            raise PutTooLarge(characters, MOST_CHARACTERS)
        seen: set[str] = set()
        for document in documents:
            if document.id in seen:
                raise InvalidDocument(document.id, "id", "must be there only once")
            seen.add(document.id)
        return await self.write(await self._store.get(name), documents)

    async def write(self, collection: Collection, documents: Sequence[Document]) -> Stored:
        """Put documents of different ids; see above."""
        digests = await self._cut.digests(documents)
        try:
            stored = await self._write(collection, documents, digests)
        except CollectionNotFound:
            # Vectors of another model may have taken its place; if it is gone, this says so.
            stored = await self._write(await self._store.get(collection.name), documents, digests)
        await self._indexes.at(stored.collection)
        return replace(stored, unchanged=len(documents) - stored.stored)

    async def _write(
        self, collection: Collection, documents: Sequence[Document], digests: Mapping[str, bytes]
    ) -> Stored:
        known = await self._store.digests(collection, list(digests))
        changed = [document for document in documents if known.get(document.id) != digests[document.id]]
        return await self._store.write(collection, await self._cut(collection, changed, digests))

    async def delete(self, name: str, ids: Sequence[str]) -> tuple[int, Collection]:
        """Delete documents; how many there were, and what is left. Raises `CollectionNotFound`."""
        deleted, collection = await self._store.delete(name, ids)
        await self._indexes.at(collection)
        return deleted, collection
