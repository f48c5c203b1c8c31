"""The chunks of a collection in the service's own index."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

import numpy as np

from chassis.server.cpu import CpuPool
from services.search.domain.collection import ChunkRef, Collection, DocumentRevision, build_chunk_id
from services.search.domain.entry import Entry
from services.search.domain.query import Ranking
from services.search.domain.snapshot import IndexSnapshot, Snapshots
from services.search.usecases.ports import IndexFactory, SearchIndex
from services.search.usecases.rank_entries import RankEntries, RankingRequest

DOCUMENTS_PER_STEP = 64
"""Documents that are applied before other tasks get the interpreter."""

QUIET_REVISIONS = 1_000
"""An index counts as quiet up to so many revisions between two maintenances, or a hundredth of all if that is more."""


class HybridChunks:
    """Implements `ChunkIndex` in memory, with snapshots on disk."""

    def __init__(
        self,
        collection: Collection,
        index_factory: IndexFactory[ChunkRef],
        snapshots: Snapshots[ChunkRef],
        pool: CpuPool,
    ) -> None:
        self._key = collection.key
        self._index_factory = index_factory
        self._snapshots = snapshots
        self._pool = pool
        self._index: SearchIndex[ChunkRef] | None = None
        self._revision = 0
        self._saved_revision = 0
        self._maintained_revision = 0
        self._file_lock = asyncio.Lock()

    @property
    def revision(self) -> int:
        """Return the collection's revision that the index has; 0 for none."""
        return self._revision

    async def open(self) -> None:
        """Load the last snapshot."""
        snapshot = await self._pool.run(self._snapshots.load, self._key)
        if snapshot is not None:
            if snapshot.index is not None:
                self._index = await self._pool.run(self._index_factory.restore, snapshot.index)
            self._revision = self._saved_revision = snapshot.revision

    async def count_chunks(self) -> int:
        """Return the number of chunks in the index."""
        return len(self._index) if self._index else 0

    async def apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        """Apply these revisions in steps."""
        for start in range(0, len(document_revisions), DOCUMENTS_PER_STEP):
            await self._pool.run(self._apply, document_revisions[start : start + DOCUMENTS_PER_STEP])

    async def search(self, rank: RankEntries, request: RankingRequest) -> Ranking[ChunkRef]:
        """See `ChunkIndex`. Raises `EmbeddingFailed`, `WrongVector`."""
        (ranking,) = await rank(self._index.view if self._index else None, [request])
        return ranking

    async def clear(self) -> None:
        """Delete all chunks and the snapshot."""
        async with self._file_lock:
            self._index, self._revision, self._saved_revision = None, 0, 0
            await self._pool.run(self._snapshots.delete, self._key)

    async def save_snapshot(self) -> None:
        """Save a snapshot, unless the saved one is of this revision."""
        async with self._file_lock:
            if self._index is not None and self._revision > self._saved_revision:
                state = await self._pool.run(self._index.export_state)
                # The revision of the state: the index may be newer by now.
                await self._pool.run(self._snapshots.save, self._key, IndexSnapshot(state.revision, [], [], state))
                self._saved_revision = state.revision

    async def maintain(self) -> None:
        """Save a snapshot and prepare for preselection, but not during a load, which would outdate both at once."""
        added = self._revision - self._maintained_revision
        self._maintained_revision = self._revision
        if self._index is not None and added <= max(QUIET_REVISIONS, self._revision // 100):
            await self._pool.run(self._index.build_neighbours)
            await self.save_snapshot()

    def _apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        entries = [entry for document_revision in document_revisions for entry in _create_entries(document_revision)]
        vectors = [document.vectors for document in document_revisions if document.vectors is not None]
        if self._index is None and vectors:
            self._index = self._index_factory.create(vectors[0].shape[1])
        if (index := self._index) is not None:
            former_ids = [
                entry_id
                for document_revision in document_revisions
                for entry_id in _list_present_ids(index, document_revision.document_id)
            ]
            index.apply(
                entries, np.concatenate(vectors) if vectors else None, former_ids, document_revisions[-1].revision
            )
        self._revision = document_revisions[-1].revision


def _create_entries(document_revision: DocumentRevision) -> list[Entry[ChunkRef]]:
    entries: list[Entry[ChunkRef]] = []
    for number, span in enumerate(document_revision.spans):
        ref = ChunkRef(document_revision.document_id, document_revision.revision, number)
        text = document_revision.text[slice(*span)]
        entries.append(Entry(ref.id, text, ref, attributes=document_revision.metadata))
    return entries


def _list_present_ids(index: SearchIndex[ChunkRef], document_id: str) -> list[str]:
    """Return the ids of the document's entries. They are deleted first, so that the new ones come last in ties."""
    present: list[str] = []
    for number in count():
        if (entry_id := build_chunk_id(document_id, number)) not in index:
            return present
        present.append(entry_id)
    return present
