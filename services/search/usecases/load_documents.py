"""Puts any number of documents into a collection, in batches that are acknowledged one by one.

A batch holds the documents that arrived while the one before was written, within limits: a fast sender gets large
batches, a slow one does not wait. One batch is in memory; the flow control of the stream slows a faster sender down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from chassis.errors import HanseiError
from libs.storage.errors import StoreFull
from services.search.domain.collection import Collection, Document, WriteResult
from services.search.domain.collection_errors import InvalidDocument
from services.search.usecases.chunk_documents import ChunkDocuments
from services.search.usecases.ports import CollectionStore
from services.search.usecases.put_documents import PutDocuments

BATCH_DOCUMENTS = 1_000
BATCH_CHARACTERS = 4_000_000
BATCH_VECTOR_BYTES = 32_000_000
LINGER_SECONDS = 0.05
"""Seconds that a batch waits for its next document before it is written."""


@dataclass(frozen=True, slots=True)
class RejectedDocument:
    """A document that breaks a rule of the contract: its id as it was sent, and the error."""

    id: str
    error: HanseiError


LoadItem = Document | RejectedDocument


@dataclass(frozen=True, slots=True)
class DocumentFailure:
    """A document of a load that was not stored: its position in the load from 0, its id, and the error."""

    position: int
    id: str
    error: HanseiError


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The totals of a load; `failures` are those of the newest batch."""

    processed: int = 0
    stored: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks: int = 0
    revision: int = 0
    failures: Sequence[DocumentFailure] = ()

    def add_batch(self, items: int, written: WriteResult | None, failures: Sequence[DocumentFailure]) -> LoadProgress:
        """Return the totals with one more batch."""
        progress = replace(
            self, processed=self.processed + items, failed=self.failed + len(failures), failures=tuple(failures)
        )
        if written is None:
            return progress
        return replace(
            progress,
            stored=self.stored + written.stored,
            unchanged=self.unchanged + written.unchanged,
            chunks=self.chunks + written.chunks,
            revision=written.collection.revision,
        )


class LoadDocuments:
    """Puts documents batch by batch. A document that cannot be stored does not stop the others."""

    def __init__(self, store: CollectionStore, put: PutDocuments, chunk: ChunkDocuments) -> None:
        self._store = store
        self._put = put
        self._chunk = chunk

    async def __call__(self, name: str, items: AsyncIterator[LoadItem]) -> AsyncIterator[LoadProgress]:
        """Yield the progress after each batch. Documents that were reported as stored stay stored after an error.

        Raises `CollectionNotFound`, `EmbeddingFailed`, `EmbedderChanged`, `StoreUnavailable`, `BackendUnreachable`.
        """
        progress = LoadProgress(revision=(await self._store.get(name)).revision)
        async for batch in collect_batches(items):
            progress = await self._store_batch(await self._store.get(name), batch, progress)
            yield progress

    async def _store_batch(
        self, collection: Collection, batch: Sequence[LoadItem], progress: LoadProgress
    ) -> LoadProgress:
        failures: list[DocumentFailure] = []
        valid: dict[int, Document] = {}
        dimension = collection.dimension
        for position, item in enumerate(batch, progress.processed):
            try:
                if isinstance(item, RejectedDocument):
                    raise item.error
                dimension = self._chunk.check(collection, item, dimension)
            except HanseiError as error:
                failures.append(DocumentFailure(position, item.id, error))
            else:
                valid[position] = item
        try:
            written = await self._put.write(collection, list(valid.values())) if valid else None
        except (InvalidDocument, StoreFull) as error:
            written = None
            failures.extend(DocumentFailure(position, document.id, error) for position, document in valid.items())
        return progress.add_batch(len(batch), written, sorted(failures, key=lambda failure: failure.position))


async def collect_batches(
    items: AsyncIterator[LoadItem], linger: float = LINGER_SECONDS
) -> AsyncIterator[list[LoadItem]]:
    """Yield batches of items with distinct ids; yield an incomplete one if no item arrives for `linger` seconds."""
    batch = _Batch()
    next_item = asyncio.ensure_future(anext(items, None))
    try:
        while True:
            done, _ = await asyncio.wait({next_item}, timeout=linger if batch.items else None)
            item = next_item.result() if done else None
            if batch.items and not (item and batch.has_capacity_for(item)):
                yield batch.items
                batch = _Batch()
            if item:
                batch.add(item)
                next_item = asyncio.ensure_future(anext(items, None))
            elif done:
                return
    finally:
        next_item.cancel()
        # The stream has ended: neither the next item nor its error matters.
        await asyncio.gather(next_item, return_exceptions=True)


class _Batch:
    """Items with different ids, and their total size."""

    def __init__(self) -> None:
        self.items: list[LoadItem] = []
        self._ids: set[str] = set()
        self._characters = 0
        self._vector_bytes = 0

    def has_capacity_for(self, item: LoadItem) -> bool:
        """Return whether the batch can take the item."""
        characters, vector_bytes = _measure(item)
        return (
            len(self.items) < BATCH_DOCUMENTS
            and item.id not in self._ids
            and self._characters + characters <= BATCH_CHARACTERS
            and self._vector_bytes + vector_bytes <= BATCH_VECTOR_BYTES
        )

    def add(self, item: LoadItem) -> None:
        """Add the item."""
        characters, vector_bytes = _measure(item)
        self.items.append(item)
        self._ids.add(item.id)
        self._characters += characters
        self._vector_bytes += vector_bytes


def _measure(item: LoadItem) -> tuple[int, int]:
    """Return the characters of an item's text and the bytes of its vectors."""
    if isinstance(item, RejectedDocument):
        return 0, 0
    return len(item.text), sum(chunk.vector.nbytes for chunk in item.chunks)
