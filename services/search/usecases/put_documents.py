"""Puts documents into a collection, all of them or none, and deletes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from services.search.domain.collection import Collection, Document, WriteResult
from services.search.domain.collection_errors import CollectionNotFound, InvalidDocument, PutTooLarge
from services.search.usecases.chunk_documents import ChunkDocuments
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.ports import CollectionStore

MAX_CHARACTERS = 8_000_000
"""Characters of text in one call."""


class PutDocuments:
    """Adds or replaces documents by id. Unchanged documents are neither cut, embedded nor written."""

    def __init__(self, store: CollectionStore, indexes: CollectionIndexes, chunk: ChunkDocuments) -> None:
        self._store = store
        self._indexes = indexes
        self._chunk = chunk

    async def __call__(self, name: str, documents: Sequence[Document]) -> WriteResult:
        """Put these documents; when it returns they are durable, and searches find them.

        Raises `CollectionNotFound`, `InvalidDocument`, `PutTooLarge`, `EmbedderChanged`, `EmbeddingFailed`, and the
        errors of the store; then nothing has changed. Raises `BackendUnreachable` when the documents are stored but
        not indexed; the next call indexes them.
        """
        characters = sum(len(document.text) for document in documents)
        if characters > MAX_CHARACTERS:
            raise PutTooLarge(characters, MAX_CHARACTERS)
        ids: set[str] = set()
        for document in documents:
            if document.id in ids:
                raise InvalidDocument(document.id, "id", "must occur only once in a request")
            ids.add(document.id)
        return await self.write(await self._store.get(name), documents)

    async def write(self, collection: Collection, documents: Sequence[Document]) -> WriteResult:
        """Put documents of different ids; see above."""
        digests = await self._chunk.compute_digests(documents)
        try:
            written = await self._write_changed(collection, documents, digests)
        except CollectionNotFound:
            # A cut-over may have replaced the collection; if it was deleted, this raises again.
            written = await self._write_changed(await self._store.get(collection.name), documents, digests)
        await self._indexes.get_index(written.collection)
        return replace(written, unchanged=len(documents) - written.stored)

    async def _write_changed(
        self, collection: Collection, documents: Sequence[Document], digests: Mapping[str, bytes]
    ) -> WriteResult:
        present = await self._store.read_digests(collection, list(digests))
        changed = [document for document in documents if present.get(document.id) != digests[document.id]]
        return await self._store.write_documents(collection, await self._chunk(collection, changed, digests))

    async def delete(self, name: str, ids: Sequence[str]) -> tuple[int, Collection]:
        """Delete documents; return their number and the collection. Raises `CollectionNotFound`."""
        deleted, collection = await self._store.delete_documents(name, ids)
        await self._indexes.get_index(collection)
        return deleted, collection
