"""Creates and deletes collections."""

from __future__ import annotations

from services.search.domain.chunking import Chunking
from services.search.domain.collection import Backend, Collection
from services.search.domain.collection_errors import BackendMissing, CollectionExists
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.ports import CollectionStore


class ManageCollections:
    """Creates collections for the current model, in the backends that are configured, and deletes them."""

    def __init__(
        self, store: CollectionStore, indexes: CollectionIndexes, model: str, backends: frozenset[Backend]
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._model = model
        self._backends = backends

    async def create(self, name: str, backend: Backend, chunking: Chunking) -> Collection:
        """Create a collection, or return the one of that name if it has the same settings.

        The model is no such setting: collections of other models are embedded again anyway. Raises `BackendMissing`,
        `CollectionExists`.
        """
        if backend not in self._backends:
            raise BackendMissing(backend.name)
        collection = await self._store.create(name, backend, chunking, self._model)
        for setting, present, requested in (
            ("backend", collection.backend.name, backend.name),
            ("chunk_tokens", collection.chunking.tokens, chunking.tokens),
            ("chunk_overlap", collection.chunking.overlap, chunking.overlap),
        ):
            if present != requested:
                raise CollectionExists(name, setting, present, requested)
        return collection

    async def drop(self, name: str) -> Collection:
        """Delete a collection and return it. Raises `CollectionNotFound`."""
        dropped = await self._store.drop(name)
        await self._indexes.drop(dropped)
        return dropped
