"""Playbooks in memory, an embedding model that records its texts, and a search of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np

from chassis.errors import NotFound, OutOfRange
from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import Float32s, Languages
from libs.embedding.remote import STRICTEST
from services.search.domain.bullet import IndexedBullet
from services.search.domain.feed import (
    BulletChange,
    CommittedRevision,
    Event,
    FeedProgress,
    PlaybookSnapshot,
    plan_reordering,
)
from services.search.domain.index import HybridIndex
from services.search.domain.query import SearchQuery
from services.search.domain.snapshot import IndexSnapshot
from services.search.domain.tokenizers import tokenize_whitespace
from services.search.domain.vector_weight import VectorWeight
from services.search.usecases.playbook_follower import PlaybookFollower
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.ports import IndexFactory
from services.search.usecases.rank_entries import RankEntries, RankingRequest
from services.search.usecases.search_playbook import SearchPlaybook


class Playbooks:
    """The feed of a curator, from a log of revisions."""

    def __init__(self) -> None:
        self.log: list[CommittedRevision] = []
        self.commits = 0
        self.bullets: list[IndexedBullet] = []
        self.grew = asyncio.Event()
        self.failures: list[Exception] = []
        self.watches: list[int | None] = []
        self.exists = True
        self.sends: Callable[[CommittedRevision], Event] = lambda event: event

    def commit(self, *changes: BulletChange) -> None:
        present = {b.id: b for b in self.bullets}
        order = list(present)
        plan_reordering(len(order), present.__contains__, changes).apply(order)
        present |= {c.bullet_id: c.after for c in changes if c.after}
        self.bullets = [present[bullet_id] for bullet_id in order]
        self.commits += 1
        committed_at = datetime.fromtimestamp(self.commits, UTC)
        self.log.append(CommittedRevision(len(self.log) + 1, changes, committed_at=committed_at))
        grew, self.grew = self.grew, asyncio.Event()
        grew.set()

    def add(self, *bullets: IndexedBullet) -> None:
        present = [b.id for b in self.bullets]
        positions = {b.id: present.index(b.id) if b.id in present else len(present) + i for i, b in enumerate(bullets)}
        self.commit(*(BulletChange(b.id, b, positions[b.id]) for b in bullets))

    async def watch(
        self, dataset: str, after: int | None, embedded_revision: int = 0, committed_at: datetime | None = None
    ) -> AsyncIterator[Event]:
        self.watches.append(after)
        if self.failures:
            raise self.failures.pop(0)
        times = [None, *(revision.committed_at for revision in self.log)]
        if after is None or (committed_at and times[after : after + 1] != [committed_at]):
            after = len(self.log)
            yield PlaybookSnapshot(after, list(self.bullets), committed_at=times[after])
        if after > len(self.log):
            raise OutOfRange("beyond the newest")
        while True:
            grew = self.grew
            while after < len(self.log):
                event = self.log[after]
                after += 1
                yield self.sends(event)
            yield FeedProgress(after)
            await grew.wait()
            if self.failures:
                raise self.failures.pop(0)

    async def require_dataset(self, dataset: str) -> None:
        if not self.exists:
            raise NotFound(f"{dataset} does not exist")


class LengthModel:
    """An embedding model of two dimensions that records texts, and fails on demand."""

    model_id = "lengths"
    trust = 0.5
    languages = Languages.LATIN
    thresholds = STRICTEST

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.fails: Exception | None = None

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        if self.fails:
            raise self.fails
        self.embedded.extend(texts)
        return np.array([[len(text), 1.0] for text in texts], np.float32)


class Memory:
    def __init__(self) -> None:
        self.vectors: dict[tuple[str, bytes], Float32s] = {}

    async def get(self, model: str, hashes: Sequence[bytes]) -> dict[bytes, Float32s]:
        return {digest: self.vectors[model, digest] for digest in hashes if (model, digest) in self.vectors}

    async def put(self, model: str, vectors: Mapping[bytes, Float32s]) -> None:
        self.vectors.update(((model, digest), vector) for digest, vector in vectors.items())


class MemorySnapshots:
    """Snapshots in memory."""

    def __init__(self) -> None:
        self.snapshots: dict[str, IndexSnapshot[IndexedBullet]] = {}
        self.saved: list[str] = []

    def load(self, dataset: str) -> IndexSnapshot[IndexedBullet] | None:
        return self.snapshots.get(dataset)

    def save(self, dataset: str, snapshot: IndexSnapshot[IndexedBullet]) -> None:
        self.snapshots[dataset] = snapshot
        self.saved.append(dataset)

    def delete_before(self, dataset: str, revision: int) -> None:
        if dataset in self.snapshots and self.snapshots[dataset].revision < revision:
            self.delete(dataset)

    def delete(self, dataset: str) -> None:
        self.snapshots.pop(dataset, None)

    def drop_cached_pages(self, dataset: str) -> None:
        pass


class World:
    """Playbooks, an embedder, and a search of both. Pauses end at once."""

    def __init__(self, memory_limit: int = 1 << 30, **options: Any) -> None:
        self.feed = Playbooks()
        self.model = LengthModel()
        self.embedder = TextEmbedder(self.model, Memory())
        self.pool = CpuPool("test", workers=1)
        self.pauses: list[float] = []
        self.snapshots = MemorySnapshots()
        self.indexes = PlaybookIndexes(self.follow, memory_limit, **options)
        rank = RankEntries(self.embedder, tokenize_whitespace, VectorWeight(0.5), "minmax", self.pool)
        self.search = SearchPlaybook(self.indexes, rank, lambda: self.remaining)
        self.remaining: float | None = None

    def follow(
        self, dataset: str, embedder: TextEmbedder | None = None, snapshots: MemorySnapshots | None = None
    ) -> PlaybookFollower:
        return PlaybookFollower(
            dataset,
            self.feed,
            embedder or self.embedder,
            IndexFactory(lambda dimension: HybridIndex(dimension, tokenize_whitespace), HybridIndex.restore),
            snapshots or self.snapshots,
            self.pool,
            sleep=self.pause,
            rng=lambda: 0.5,
            feed_grace_seconds=0,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def find_ids(self, text: str = "", min_revision: int = 0, **fields: object) -> list[str]:
        (response,) = await self.search("d", [RankingRequest(SearchQuery(text, **fields))], min_revision)  # type: ignore[arg-type]
        return [result.item.id for result in response.ranking.results]


@asynccontextmanager
async def world(memory_limit: int = 1 << 30, **options: Any) -> AsyncIterator[World]:
    made = World(memory_limit, **options)
    try:
        yield made
    finally:
        await made.indexes.close()
        await made.pool.close()


def bullet(bullet_id: str, text: str = "same", **fields: object) -> IndexedBullet:
    return IndexedBullet(bullet_id, "s", text, text, **fields)  # type: ignore[arg-type]
