"""Collections are made and deleted."""

from __future__ import annotations

from libs.embedding.embedder import TextEmbedder
from services.search.domain.chunking import Chunking
from services.search.domain.collection import Backend, Collection
from services.search.domain.collection_errors import BackendMissing, CollectionExists
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.ports import CollectionStore


class MakeCollections:
    """Makes collections for the embedder in use, in the backends that are set up, and deletes them."""

    def __init__(
        self, store: CollectionStore, indexes: CollectionIndexes, embed: TextEmbedder, backends: frozenset[Backend]
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._embed = embed
        self._backends = backends

    async def create(self, name: str, backend: Backend, chunking: Chunking) -> Collection:
        """The collection of that name, which is made unless it is there with the same settings.

        One that another model embedded is embedded anew, so its model is none of them.
        Raises `BackendMissing`, `CollectionExists`.
        """
        if backend not in self._backends:
            raise BackendMissing
        collection = await self._store.create(name, backend, chunking, self._embed.model.model_id)
        for setting, there, wanted in (
            ("backend", collection.backend.name, backend.name),
            ("chunk_tokens", collection.chunking.tokens, chunking.tokens),
            ("chunk_overlap", collection.chunking.overlap, chunking.overlap),
        ):
            if there != wanted:
                raise CollectionExists(name, setting, there, wanted)
        return collection

    async def drop(self, name: str) -> Collection:
        """Delete a collection; what it was. Raises `CollectionNotFound`."""
        dropped = await self._store.drop(name)
        await self._indexes.drop(dropped)
        return dropped
