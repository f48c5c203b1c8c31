"""The index of one playbook, which follows the change feed: a committed change can be found moments later.

The index always shows one whole revision. When the feed fails, or a text cannot be embedded, the index stays at its
revision, reports the error, and continues as soon as it can.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from chassis.errors import HanseiError, Internal, OutOfRange
from chassis.feed_retries import FeedRetries
from chassis.logging import get_logger
from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s
from services.search.domain.bullet import IndexedBullet
from services.search.domain.entry import create_bullet_entry
from services.search.domain.errors import PlaybookUnreachable, RevisionNotReached
from services.search.domain.feed import (
    BulletChange,
    ChangeFeed,
    CommittedRevision,
    Event,
    FeedProgress,
    PlaybookSnapshot,
    Vectors,
    plan_reordering,
)
from services.search.domain.snapshot import IndexSnapshot, Snapshots
from services.search.usecases.ports import IndexFactory, SearchIndex, SearchView

log = get_logger(__name__)

FOLLOWER_BYTES = 100_000
"""Bytes of a followed playbook besides its index: the stream of its changes, its tasks and its order."""
# To write so few entries takes less time than a thread hand-over.
INLINE_ENTRIES = 16


class MissedRevisionError(Exception):
    """The feed skipped a revision."""


class SharedIdError(Exception):
    """A revision changes an id that several bullets have: it does not say which of them changed."""


class PlaybookFollower:
    """The index of one dataset; `run` follows the feed until it is cancelled.

    ``is_open`` becomes true when the last snapshot was loaded; before, the index may hold more than its revision shows.
    """

    def __init__(
        self,
        dataset: str,
        feed: ChangeFeed,
        embedder: TextEmbedder,
        index_factory: IndexFactory[IndexedBullet],
        snapshots: Snapshots[IndexedBullet],
        pool: CpuPool,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        feed_grace_seconds: float = 2.0,
    ) -> None:
        self.dataset = dataset
        self.embedder = embedder
        self.is_open = False
        self.last_event_at: datetime | None = None
        self.error: HanseiError | None = None
        self._feed = feed
        self._index_factory = index_factory
        self._snapshots = snapshots
        self._pool = pool
        self._retries = FeedRetries(log, sleep=sleep, rng=rng)
        self._now = now
        self._feed_grace_seconds = feed_grace_seconds
        self._index: SearchIndex[IndexedBullet] | None = None
        self._retired: dict[str, IndexedBullet] = {}
        self._order: list[str] = []
        self._shared_ids: frozenset[str] = frozenset()
        self._revision = -1
        self._saved_revision = 0
        self._committed_at: datetime | None = None
        self._state_changed = asyncio.Event()
        self._write_lock = asyncio.Lock()
        self._save_lock = asyncio.Lock()
        self._waiting = 0

    @property
    def revision(self) -> int:
        """Return the revision that the index shows; -1 before the first."""
        return self._revision

    @property
    def view(self) -> SearchView[IndexedBullet] | None:
        """Return the newest state; None while there never was a bullet."""
        index = self._index
        return None if index is None else index.view

    @property
    def bullets(self) -> int:
        """Return the number of bullets in the index."""
        return len(self._index) if self._index else 0

    @property
    def memory_bytes(self) -> int:
        """Return the bytes that this playbook takes in memory, by estimate."""
        return FOLLOWER_BYTES + (0 if self._index is None else self._index.allocated_bytes)

    @property
    def is_awaited(self) -> bool:
        """Return whether a call waits for a revision of this index."""
        return self._waiting > 0

    async def require_dataset(self) -> None:
        """Raise `NotFound`, with similar names, if the dataset does not exist.

        A bullet shows that it does. A feed that failed reports its own error.
        """
        if self._index is None and self.error is None:
            await self._feed.require_dataset(self.dataset)

    async def wait_for_revision(self, revision: int, seconds: float | None) -> SearchView[IndexedBullet] | None:
        """Return the state as soon as it shows at least `revision`, and at least a first state, within `seconds`.

        A broken feed gets a short time to recover. Raises `PlaybookUnreachable`, `EmbeddingFailed` or
        `RevisionNotReached`.
        """
        self._waiting += 1
        try:
            await self._wait_for_revision(max(revision, 0), seconds)
        finally:
            self._waiting -= 1
        return self.view

    async def _wait_for_revision(self, revision: int, seconds: float | None) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        while self._revision < revision:
            state_changed = self._state_changed
            limits = [seconds, self._feed_grace_seconds if self.error else None]
            left = [limit - (clock() - began) for limit in limits if limit is not None]
            try:
                async with asyncio.timeout(min(left) if left else None):
                    await state_changed.wait()
            except TimeoutError:
                if self._revision < revision:
                    raise self._describe_delay(revision) from None

    async def run(self) -> None:
        """Load the last snapshot, then follow the feed without end.

        After a snapshot the feed goes on at its revision. If the store was replaced meanwhile, its revision has another
        time, and the feed begins with the whole playbook; bullets that are equal are neither embedded nor written
        again.
        """
        try:
            await self._load_snapshot()
        except Exception:
            # A snapshot only saves time: the feed sends its content as well.
            log.exception("snapshot could not be loaded; building the index from the playbook", dataset=self.dataset)
        finally:
            self.is_open = True
        after = None if self._committed_at is None else self._revision
        while True:
            committed_at = None if after is None else self._committed_at
            try:
                async for event in self._feed.watch(self.dataset, after, max(0, self._revision), committed_at):
                    await self._apply(event)
                    after = self._revision
                    self._retries.reset()
            except (MissedRevisionError, OutOfRange) as error:
                log.warning("feed has a gap; reading it from its start", dataset=self.dataset, error=str(error))
                after = None
            except SharedIdError:
                after = None  # only the whole playbook distinguishes such bullets
            except HanseiError as error:
                self._retries.log_failure("feed failed; trying again", dataset=self.dataset, error=str(error))
                self.error = error
                self._notify_waiters()
            except Exception as error:
                # A bug here. Reading from the start repairs an index that was written in part.
                log.exception(
                    "index failed; rebuilding it from the feed", dataset=self.dataset, revision=self._revision
                )
                after, self.error = None, Internal(f"the index failed ({type(error).__name__})")
                self._notify_waiters()
            await self._retries.pause()

    async def build_neighbours(self) -> None:
        """Build the neighbour index if the index has become large enough for preselection."""
        if self._index is not None:
            await self._pool.run(self._index.build_neighbours)

    async def save(self) -> None:
        """Save a snapshot, unless the saved one is of this revision, or there is no revision yet."""
        async with self._save_lock:
            if self._revision <= self._saved_revision:
                return
            async with self._write_lock:
                revision, order, retired = self._revision, list(self._order), list(self._retired.values())
                # Only the whole playbook distinguishes bullets that share an id.
                committed_at = None if self._shared_ids else self._committed_at
                index = await self._pool.run(self._index.export_state) if self._index else None
            snapshot = IndexSnapshot(revision, order, retired, index, committed_at)
            await self._pool.run(self._snapshots.save, self.dataset, snapshot)
            self._saved_revision = revision

    async def _load_snapshot(self) -> None:
        snapshot = await self._pool.run(self._snapshots.load, self.dataset)
        if snapshot is not None:
            if snapshot.index is not None:
                self._index = await self._pool.run(self._index_factory.restore, snapshot.index)
            self._order = list(snapshot.order)
            self._retired = {bullet.id: bullet for bullet in snapshot.retired}
            self._revision = self._saved_revision = snapshot.revision
            self._committed_at = snapshot.committed_at
            self._notify_waiters()

    async def _apply(self, event: Event) -> None:
        async with self._write_lock:
            match event:
                case PlaybookSnapshot(revision, bullets, vectors, committed_at):
                    await self._replace_all(bullets, revision, vectors)
                    self._committed_at = committed_at
                case CommittedRevision(revision, changes, vectors, committed_at) if revision > self._revision:
                    if revision != self._revision + 1:
                        raise MissedRevisionError(f"expected revision {self._revision + 1}, got {revision}")
                    await self._apply_changes(changes, revision, vectors)
                    self._committed_at = committed_at
                case FeedProgress(revision) if revision > self._revision:
                    raise MissedRevisionError(f"the feed is at revision {revision}, the index at {self._revision}")
                case _:
                    pass
        self.last_event_at = self._now()
        self.error = None
        self._notify_waiters()

    async def _replace_all(self, bullets: Sequence[IndexedBullet], revision: int, vectors: Vectors) -> None:
        """Make the index hold exactly these bullets; equal ones are not written again."""
        if not bullets:
            await self._drop(revision)
            return
        by_key = map_bullets(bullets)
        changed, removed = await self._pool.run(self._compare, by_key)
        order = list(by_key)
        await self._write(changed, removed, revision, None if order == self._order else order, vectors)
        self._order = order
        self._shared_ids = frozenset(bullet.id for key, bullet in by_key.items() if key != bullet.id)

    async def _drop(self, revision: int) -> None:
        """Drop the index and its snapshot: the playbook is empty or deleted, and no file may hold its former texts."""
        self._index, self._retired, self._order, self._shared_ids = None, {}, [], frozenset()
        self._revision = self._saved_revision = revision
        await self._pool.run(self._snapshots.delete, self.dataset)

    def _compare(self, bullets: Mapping[str, IndexedBullet]) -> tuple[dict[str, IndexedBullet], list[str]]:
        """Return the bullets that differ from those in the index, and the keys that are not among them."""
        changed = {key: bullet for key, bullet in bullets.items() if not self._contains_bullet(key, bullet)}
        return changed, [key for key in self._order if key not in bullets]

    async def _apply_changes(self, changes: Sequence[BulletChange], revision: int, vectors: Vectors) -> None:
        self._check_ids(changes)
        reordering = plan_reordering(len(self._order), self._contains, changes)
        order: list[str] | None = None
        if reordering.moves:
            order = list(self._order)
            reordering.apply(order)
        changed = {change.bullet_id: change.after for change in changes if change.after is not None}
        removed = [change.bullet_id for change in changes if change.after is None]
        await self._write(changed, removed, revision, order, vectors)
        if order is None:
            reordering.apply(self._order)
        else:
            self._order = order

    def _check_ids(self, changes: Sequence[BulletChange]) -> None:
        """Raise SharedIdError unless each change is the change of exactly one bullet."""
        ids = {change.bullet_id for change in changes}
        is_shared = len(ids) < len(changes) or not self._shared_ids.isdisjoint(ids)
        if is_shared or any(change.is_new and self._contains(change.bullet_id) for change in changes):
            raise SharedIdError

    async def _write(
        self,
        changed: Mapping[str, IndexedBullet],
        removed: Sequence[str],
        revision: int,
        order: Sequence[str] | None,
        sent_vectors: Vectors,
    ) -> None:
        served = {key: bullet for key, bullet in changed.items() if bullet.is_served}
        retired = {key: bullet for key, bullet in changed.items() if not bullet.is_served}
        vectors = await self._complete_vectors([bullet.searchable_text for bullet in served.values()], sent_vectors)
        if self._index is None and served:
            self._index = self._index_factory.create(vectors.shape[1])
        if (index := self._index) is not None:
            entries = [create_bullet_entry(bullet)._replace(id=key) for key, bullet in served.items()]
            update = (entries, vectors if served else None, [*removed, *retired], revision, order)
            if len(served) + len(removed) + len(order or ()) <= INLINE_ENTRIES:
                index.apply(*update)
            else:
                await self._pool.run(index.apply, *update)
        for key in (*removed, *served):
            self._retired.pop(key, None)
        self._retired.update(retired)
        self._revision = revision

    async def _complete_vectors(self, texts: Sequence[str], sent_vectors: Vectors) -> Float32s:
        """Return the vectors of the texts, shape (n, d): those that were sent, and new ones for the others."""
        missing = [text for text in texts if text not in sent_vectors]
        if missing or not texts:
            embedded = await self.embedder.embed_documents(missing)
            if len(missing) == len(texts):
                return embedded
            sent_vectors = {**sent_vectors, **dict(zip(missing, embedded, strict=True))}
        return np.stack([sent_vectors[text] for text in texts])

    def _contains_bullet(self, key: str, bullet: IndexedBullet) -> bool:
        """Return whether an equal bullet is in the index or retired."""
        if (retired := self._retired.get(key)) is not None:
            return retired == bullet
        return self._index is not None and self._index.contains_item(key, bullet)

    def _contains(self, bullet_id: str) -> bool:
        return bullet_id in self._retired or (self._index is not None and bullet_id in self._index)

    def _notify_waiters(self) -> None:
        state_changed, self._state_changed = self._state_changed, asyncio.Event()
        state_changed.set()

    def _describe_delay(self, revision: int) -> HanseiError:
        if isinstance(self.error, EmbeddingFailed):
            return EmbeddingFailed(self.error.cause)
        if self.error is not None:
            return PlaybookUnreachable(self.dataset, str(self.error))
        return RevisionNotReached(self.dataset, self._revision, revision)


def map_bullets(bullets: Sequence[IndexedBullet]) -> dict[str, IndexedBullet]:
    """Return the bullets by key: the id, and with a number for all but the first of those that share an id."""
    keyed: dict[str, IndexedBullet] = {}
    for bullet in bullets:
        key, number = bullet.id, 1
        while key in keyed:
            number += 1
            key = f"{bullet.id}\0{number}"
        keyed[key] = bullet
    return keyed
