"""The chunks of a collection in the service's own index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from chassis.server.cpu import CpuPool
from services.search.domain.collection import ChunkRef, Collection, Writing, chunk_id
from services.search.domain.entry import Entry
from services.search.domain.query import Ranking
from services.search.domain.snapshot import IndexSnapshot, Snapshots
from services.search.usecases.ports import IndexFactory, SearchIndex
from services.search.usecases.search_playbook import Ask, RankEntries

WRITINGS_A_STEP = 64
"""Documents taken up before others get the interpreter for sure."""


QUIET_WRITINGS = 1_000
"""Writings between two looks at an index up to which it counts as quiet, or a hundredth of all if that is more."""


class HybridChunks:
    """Implements `ChunkIndex` in memory, with snapshots on disk."""

    def __init__(
        self,
        collection: Collection,
        make: IndexFactory[ChunkRef],
        snapshots: Snapshots[ChunkRef],
        pool: CpuPool,
    ) -> None:
        self._key = collection.key
        self._make = make
        self._snapshots = snapshots
        self._pool = pool
        self._index: SearchIndex[ChunkRef] | None = None
        self._revision = 0
        self._saved = 0
        self._seen = 0

    @property
    def revision(self) -> int:
        """The collection's revision that it holds; 0 for none."""
        return self._revision

    async def open(self) -> None:
        """Take up the last snapshot."""
        snapshot = await self._pool.run(self._snapshots.load, self._key)
        if snapshot is not None:
            if snapshot.index is not None:
                self._index = await self._pool.run(self._make.restore, snapshot.index)
            self._revision = self._saved = snapshot.revision

    async def chunks(self) -> int:
        """How many chunks it holds."""
        return len(self._index) if self._index else 0

    async def take(self, writings: Sequence[Writing]) -> None:
        """Take up these writings."""
        for start in range(0, len(writings), WRITINGS_A_STEP):
            await self._pool.run(self._take, writings[start : start + WRITINGS_A_STEP])

    async def search(self, rank: RankEntries, ask: Ask) -> Ranking[ChunkRef]:
        """See `ChunkIndex`. Raises `EmbeddingFailed`, `WrongVector`."""
        (ranking,) = await rank(self._index.view if self._index else None, [ask])
        return ranking

    async def clear(self) -> None:
        """Hold nothing any more."""
        self._index, self._revision, self._saved = None, 0, 0
        await self._pool.run(self._snapshots.forget, self._key)

    async def keep(self) -> None:
        """Keep a snapshot, unless the one that is kept is of this revision."""
        if self._index is not None and self._revision > self._saved:
            state = await self._pool.run(self._index.export_state)
            # The index names its newest revision itself: it may have gone on since it was looked at.
            await self._pool.run(self._snapshots.save, self._key, IndexSnapshot(state.revision, [], [], state))
            self._saved = state.revision

    async def tend(self) -> None:
        """Keep a snapshot and prepare for preselection, but not in the middle of a load: it would be for nothing."""
        written, self._seen = self._revision - self._seen, self._revision
        if self._index is not None and written <= max(QUIET_WRITINGS, self._revision // 100):
            await self._pool.run(self._index.build_neighbours)
            await self.keep()

    def _take(self, writings: Sequence[Writing]) -> None:
        entries = [entry for writing in writings for entry in _entries(writing)]
        vectors = [writing.vectors for writing in writings if writing.vectors is not None]
        if self._index is None and vectors:
            self._index = self._make.create(vectors[0].shape[1])
        if (index := self._index) is not None:
            gone = [old for writing in writings for old in _present(index, writing.document_id)]
            index.apply(entries, np.concatenate(vectors) if vectors else None, gone, writings[-1].revision)
        self._revision = writings[-1].revision


def _entries(writing: Writing) -> list[Entry[ChunkRef]]:
    refs = [ChunkRef(writing.document_id, writing.revision, number) for number in range(len(writing.spans))]
    return [
        Entry(ref.id, writing.text[slice(*span)], ref, attributes=writing.metadata)
        for ref, span in zip(refs, writing.spans, strict=True)
    ]


def _present(index: SearchIndex[ChunkRef], document_id: str) -> list[str]:
    """The ids under which the index holds the document. They are given up, so that the new ones come last in ties."""
    present: list[str] = []
    for number in count():
        if (entry_id := chunk_id(document_id, number)) not in index:
            return present
        present.append(entry_id)
    return present
