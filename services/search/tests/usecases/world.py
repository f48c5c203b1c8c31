"""Playbooks served from memory, an embedder that counts, and the search over both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import numpy as np

from chassis.errors import OutOfRange
from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import Float32s
from libs.embedding.remote import STRICTEST
from services.search.domain.bullet import Bullet
from services.search.domain.feed import Alive, Change, Committed, Event, Snapshot, reordering
from services.search.domain.index import HybridIndex
from services.search.domain.query import SearchQuery
from services.search.domain.snapshot import IndexSnapshot
from services.search.domain.tokenizers import whitespace
from services.search.domain.vector_weight import VectorWeight
from services.search.usecases.follow_playbook import FollowedPlaybook
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.ports import IndexFactory
from services.search.usecases.search_playbook import Ask, RankEntries, SearchPlaybook


class Playbooks:
    """A feed as its owner would serve it, from a log of revisions."""

    def __init__(self) -> None:
        self.log: list[Committed] = []
        self.bullets: list[Bullet] = []
        self.grown = asyncio.Event()
        self.failures: list[Exception] = []
        self.watches: list[int | None] = []
        self.sends: Callable[[Committed], Event] = lambda event: event

    def commit(self, *changes: Change) -> None:
        known = {b.id: b for b in self.bullets}
        order = list(known)
        reordering(len(order), known.__contains__, changes).apply(order)
        known |= {c.bullet_id: c.after for c in changes if c.after}
        self.bullets = [known[bullet_id] for bullet_id in order]
        self.log.append(Committed(len(self.log) + 1, changes))
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()

    def add(self, *bullets: Bullet) -> None:
        known = [b.id for b in self.bullets]
        places = {b.id: known.index(b.id) if b.id in known else len(known) + i for i, b in enumerate(bullets)}
        self.commit(*(Change(b.id, b, places[b.id]) for b in bullets))

    async def watch(self, dataset: str, after: int | None, held: int = 0) -> AsyncIterator[Event]:
        self.watches.append(after)
        if self.failures:
            raise self.failures.pop(0)
        if after is None:
            after = len(self.log)
            yield Snapshot(after, list(self.bullets))
        if after > len(self.log):
            raise OutOfRange("beyond the newest")
        while True:
            grown = self.grown
            while after < len(self.log):
                event = self.log[after]
                after += 1
                yield self.sends(event)
            yield Alive(after)
            await grown.wait()
            if self.failures:
                raise self.failures.pop(0)


class Lengths:
    """An embedder of two dimensions that counts, and fails when told to."""

    model_id = "lengths"
    trust = 0.5
    only_latin = True
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


class Kept:
    """Snapshots in memory."""

    def __init__(self) -> None:
        self.snapshots: dict[str, IndexSnapshot[Bullet]] = {}

    def load(self, dataset: str) -> IndexSnapshot[Bullet] | None:
        return self.snapshots.get(dataset)

    def save(self, dataset: str, snapshot: IndexSnapshot[Bullet]) -> None:
        self.snapshots[dataset] = snapshot

    def forget(self, dataset: str) -> None:
        del self.snapshots[dataset]


class World:
    """Playbooks, an embedder, and the search over both. Pauses end at once."""

    def __init__(self, most: int = 10) -> None:
        self.feed = Playbooks()
        self.embedder = Lengths()
        self.embed = TextEmbedder(self.embedder, Memory())
        self.pool = CpuPool("test", workers=1)
        self.pauses: list[float] = []
        self.snapshots = Kept()
        self.indexes = PlaybookIndexes(self.follow, most)
        rank = RankEntries(self.embed, whitespace, VectorWeight(0.5), "minmax", self.pool)
        self.search = SearchPlaybook(self.indexes, rank, lambda: self.remaining)
        self.remaining: float | None = None

    def follow(self, dataset: str, embed: TextEmbedder | None = None, kept: Kept | None = None) -> FollowedPlaybook:
        return FollowedPlaybook(
            dataset,
            self.feed,
            embed or self.embed,
            IndexFactory(lambda dimension: HybridIndex(dimension, whitespace), HybridIndex.restore),
            kept or self.snapshots,
            self.pool,
            sleep=self.pause,
            patience_seconds=0,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def found(self, text: str = "", min_revision: int = 0, **fields: object) -> list[str]:
        (answer,) = await self.search("d", [Ask(SearchQuery(text, **fields))], min_revision)  # type: ignore[arg-type]
        return [result.item.id for result in answer.ranking.results]


@asynccontextmanager
async def world(most: int = 10) -> AsyncIterator[World]:
    made = World(most)
    try:
        yield made
    finally:
        await made.indexes.close()
        await made.pool.close()


def bullet(bullet_id: str, text: str = "same", **fields: object) -> Bullet:
    return Bullet(bullet_id, "s", text, text, **fields)  # type: ignore[arg-type]
