"""Any number of documents are put into a collection, in batches that are acknowledged one by one.

A batch is what has arrived while the one before was written, within bounds: a fast sender gets large batches, a slow
one does not wait. Only one batch is in memory; a sender that is too fast is held up by the flow control of its stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from chassis.errors import HanseiError
from libs.storage.errors import StoreFull
from services.search.domain.collection import Collection, Document, Stored
from services.search.domain.collection_errors import InvalidDocument
from services.search.usecases.cut_documents import CutDocuments
from services.search.usecases.ports import CollectionStore
from services.search.usecases.put_documents import PutDocuments

BATCH_DOCUMENTS = 1_000
BATCH_CHARACTERS = 4_000_000
BATCH_VECTOR_BYTES = 32_000_000
LINGER_SECONDS = 0.05
"""How long a batch waits for the next document before it is written as it is."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A document that broke the rules of the contract: its id as it came, and why."""

    id: str
    error: HanseiError


Arrived = Document | Refused


@dataclass(frozen=True, slots=True)
class Failure:
    """A document of a load that was not stored: its place in the load from 0, its id, and why."""

    position: int
    id: str
    error: HanseiError


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load is; `failures` are those of the newest batch."""

    processed: int = 0
    stored: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks: int = 0
    revision: int = 0
    failures: Sequence[Failure] = ()

    def after(self, arrived: int, stored: Stored | None, failures: Sequence[Failure]) -> Progress:
        """The progress with one more batch, of which `stored` tells what was written."""
        done = replace(
            self, processed=self.processed + arrived, failed=self.failed + len(failures), failures=tuple(failures)
        )
        if stored is None:
            return done
        return replace(
            done,
            stored=self.stored + stored.stored,
            unchanged=self.unchanged + stored.unchanged,
            chunks=self.chunks + stored.chunks,
            revision=stored.collection.revision,
        )


class LoadDocuments:
    """Puts documents batch by batch. A document that cannot be stored does not keep the others from it."""

    def __init__(self, store: CollectionStore, put: PutDocuments, cut: CutDocuments) -> None:
        self._store = store
        self._put = put
        self._cut = cut

    async def __call__(self, name: str, documents: AsyncIterator[Arrived]) -> AsyncIterator[Progress]:
        """The progress after each batch. Raises `CollectionNotFound`, and what stops everything: `EmbeddingFailed`,
        `EmbedderChanged`, `StoreUnavailable`, `BackendUnreachable`. What was reported as stored stays stored.
        """
        progress = Progress(revision=(await self._store.get(name)).revision)
        async for batch in batches(documents):
            progress = await self._batch(await self._store.get(name), batch, progress)
            yield progress

    async def _batch(self, collection: Collection, batch: Sequence[Arrived], progress: Progress) -> Progress:
        failures: list[Failure] = []
        good: dict[int, Document] = {}
        dimension = collection.dimension
        for position, arrived in enumerate(batch, progress.processed):
            try:
                if isinstance(arrived, Refused):
                    raise arrived.error
                dimension = self._cut.check(collection, arrived, dimension)
            except HanseiError as error:
                failures.append(Failure(position, arrived.id, error))
            else:
                good[position] = arrived
        try:
            stored = await self._put.write(collection, list(good.values())) if good else None
        except (InvalidDocument, StoreFull) as error:
            stored = None
            failures.extend(Failure(position, document.id, error) for position, document in good.items())
        return progress.after(len(batch), stored, sorted(failures, key=lambda failure: failure.position))


async def batches(documents: AsyncIterator[Arrived], linger: float = LINGER_SECONDS) -> AsyncIterator[list[Arrived]]:
    """What arrives, in lists of documents of different ids, none of them larger than a batch may be."""
    batch = _Batch()
    following = asyncio.ensure_future(anext(documents, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=linger if batch.documents else None)
            arrived = following.result() if done else None
            if batch.documents and not (arrived and batch.takes(arrived)):
                yield batch.documents
                batch = _Batch()
            if arrived:
                batch.add(arrived)
                following = asyncio.ensure_future(anext(documents, None))
            elif done:
                return
    finally:
        following.cancel()
        # Nobody wants the document that comes next, nor why it does not come.
        await asyncio.gather(following, return_exceptions=True)


class _Batch:
    """Documents of different ids, and how large they are together."""

    def __init__(self) -> None:
        self.documents: list[Arrived] = []
        self._ids: set[str] = set()
        self._characters = 0
        self._vector_bytes = 0

    def takes(self, arrived: Arrived) -> bool:
        """Whether there is room for this one."""
        return (
            len(self.documents) < BATCH_DOCUMENTS
            and arrived.id not in self._ids
            and self._characters + _characters(arrived) <= BATCH_CHARACTERS
            and self._vector_bytes + _vector_bytes(arrived) <= BATCH_VECTOR_BYTES
        )

    def add(self, arrived: Arrived) -> None:
        """Take this one."""
        self.documents.append(arrived)
        self._ids.add(arrived.id)
        self._characters += _characters(arrived)
        self._vector_bytes += _vector_bytes(arrived)


def _characters(arrived: Arrived) -> int:
    return len(arrived.text) if isinstance(arrived, Document) else 0


def _vector_bytes(arrived: Arrived) -> int:
    return sum(chunk.vector.nbytes for chunk in arrived.chunks) if isinstance(arrived, Document) else 0
