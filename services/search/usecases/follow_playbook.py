"""An index that follows one playbook: what is committed there is found here, moments later.

The index always shows one whole revision. When the feed breaks, or a text cannot be embedded, the index stays at the
last revision it had, says why, and goes on from there as soon as it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from chassis.errors import HanseiError, Internal, OutOfRange
from chassis.logging import get_logger
from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s
from services.search.domain.bullet import Bullet
from services.search.domain.entry import bullet_entry
from services.search.domain.errors import PlaybookUnreachable, RevisionNotReached
from services.search.domain.feed import Alive, Change, Committed, Event, Feed, Snapshot, Vectors, reordering
from services.search.domain.snapshot import IndexSnapshot, Snapshots
from services.search.usecases.ports import IndexFactory, SearchIndex, SearchView

log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# Writing so few entries takes less than handing them to another thread is worth.
INLINE_ENTRIES = 16


class MissedRevisionError(Exception):
    """A revision is missing between the last one heard of and this one."""


class FollowedPlaybook:
    """The index of one dataset, and how far it is. `run` follows the feed until it is cancelled.

    ``opened`` says that the last snapshot was looked for: before, the index may hold more than its revision tells.
    """

    def __init__(
        self,
        dataset: str,
        feed: Feed,
        embed: TextEmbedder,
        make: IndexFactory[Bullet],
        snapshots: Snapshots[Bullet],
        pool: CpuPool,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience_seconds: float = 2.0,
    ) -> None:
        self.dataset = dataset
        self.opened = False
        self.heard_at: datetime | None = None
        self.error: HanseiError | None = None
        self._feed = feed
        self.embed = embed
        self._make = make
        self._snapshots = snapshots
        self._pool = pool
        self._sleep = sleep
        self._now = now
        self._patience_seconds = patience_seconds
        self._index: SearchIndex[Bullet] | None = None
        self._hidden: dict[str, Bullet] = {}
        self._order: list[str] = []
        self._revision = -1
        self._saved = -1
        self._moved = asyncio.Event()
        self._writing = asyncio.Lock()

    @property
    def revision(self) -> int:
        """The revision that the index shows; -1 before the first."""
        return self._revision

    @property
    def view(self) -> SearchView[Bullet] | None:
        """The newest state; None while there never was a bullet."""
        index = self._index
        return None if index is None else index.view

    @property
    def bullets(self) -> int:
        """How many bullets the index holds."""
        return len(self._index) if self._index else 0

    async def reached(self, revision: int, seconds: float | None) -> SearchView[Bullet] | None:
        """The state once it shows at least `revision`, and at least a first state, within `seconds`.

        A broken feed is given a little time to come back. Raises `PlaybookUnreachable`, `EmbeddingFailed` or
        `RevisionNotReached`.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        while self._revision < max(revision, 0):
            moved = self._moved
            limits = [seconds, self._patience_seconds if self.error else None]
            left = [limit - (clock() - began) for limit in limits if limit is not None]
            try:
                async with asyncio.timeout(min(left) if left else None):
                    await moved.wait()
            except TimeoutError:
                if self._revision < max(revision, 0):
                    raise self._reason(revision) from None
        return self.view

    async def run(self) -> None:
        """Take up the last snapshot, then follow the feed, for ever.

        The feed begins with the whole playbook even after a snapshot: only so does the index notice that the store was
        replaced meanwhile. What is the same is neither embedded nor written again.
        """
        try:
            await self._thaw()
        except Exception:
            # A snapshot only saves time: what it holds comes with the feed as well.
            log.exception("snapshot could not be loaded", dataset=self.dataset)
        finally:
            self.opened = True
        pause = FIRST_PAUSE_SECONDS
        after: int | None = None
        while True:
            try:
                async for event in self._feed.watch(self.dataset, after, max(0, self._revision)):
                    await self._take(event)
                    after, pause = self._revision, FIRST_PAUSE_SECONDS
            except (MissedRevisionError, OutOfRange) as error:
                log.warning("feed has a gap; reading it from its start", dataset=self.dataset, error=str(error))
                after = None
            except HanseiError as error:
                log.warning("feed failed; trying again", dataset=self.dataset, error=str(error))
                self.error = error
                self._pulse()
            except Exception as error:
                # A fault of ours. To stand still for good would be worse, and to begin anew mends what is half written.
                log.exception(
                    "index failed; rebuilding it from the feed", dataset=self.dataset, revision=self._revision
                )
                after, self.error = None, Internal(f"the index failed ({type(error).__name__})")
                self._pulse()
            await self._sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _take(self, event: Event) -> None:
        async with self._writing:
            match event:
                case Snapshot(revision, bullets, vectors):
                    await self._replace(bullets, revision, vectors)
                case Committed(revision, changes, vectors) if revision > self._revision:
                    if revision != self._revision + 1:
                        raise MissedRevisionError(f"revision {revision} after {self._revision}")
                    await self._change(changes, revision, vectors)
                case Alive(revision) if revision > self._revision:
                    raise MissedRevisionError(f"the feed stands at revision {revision}, the index at {self._revision}")
                case _:
                    pass
        self.heard_at = self._now()
        self.error = None
        self._pulse()

    async def _replace(self, bullets: Sequence[Bullet], revision: int, vectors: Vectors) -> None:
        """Become this playbook; what is the same already stays as it is."""
        given = {bullet.id: bullet for bullet in bullets}
        changed, gone = await self._pool.run(self._difference, given)
        order = list(given)
        await self._write(changed, gone, revision, None if order == self._order else order, vectors)
        self._order = order

    def _difference(self, given: Mapping[str, Bullet]) -> tuple[list[Bullet], list[str]]:
        changed = [bullet for bullet in given.values() if not self._holds(bullet)]
        return changed, [bullet_id for bullet_id in self._order if bullet_id not in given]

    async def _change(self, changes: Sequence[Change], revision: int, vectors: Vectors) -> None:
        reordered = reordering(len(self._order), self._knows, changes)
        order: list[str] | None = None
        if reordered.moves:
            order = list(self._order)
            reordered.apply(order)
        changed = [change.after for change in changes if change.after is not None]
        gone = [change.bullet_id for change in changes if change.after is None]
        await self._write(changed, gone, revision, order, vectors)
        if order is None:
            reordered.apply(self._order)
        else:
            self._order = order

    async def _write(
        self,
        changed: Sequence[Bullet],
        gone: Sequence[str],
        revision: int,
        order: Sequence[str] | None,
        sent: Vectors,
    ) -> None:
        served = [bullet for bullet in changed if bullet.served]
        hidden = [bullet.id for bullet in changed if not bullet.served]
        vectors = await self._vectors([bullet.searchable_text for bullet in served], sent)
        if self._index is None and served:
            self._index = self._make.create(vectors.shape[1])
        if (index := self._index) is not None:
            entries = [bullet_entry(bullet) for bullet in served]
            given = vectors if served else None
            if len(served) + len(gone) + len(order or ()) <= INLINE_ENTRIES:
                index.apply(entries, given, [*gone, *hidden], revision, order)
            else:
                await self._pool.run(index.apply, entries, given, [*gone, *hidden], revision, order)
        for bullet_id in (*gone, *(bullet.id for bullet in served)):
            self._hidden.pop(bullet_id, None)
        self._hidden.update((bullet.id, bullet) for bullet in changed if not bullet.served)
        self._revision = revision

    async def _vectors(self, texts: Sequence[str], sent: Vectors) -> Float32s:
        """Return the vectors of the texts, shape (n, d): those that were sent, and the others embedded here."""
        missing = [text for text in texts if text not in sent]
        if missing or not texts:
            made = await self.embed.embed_documents(missing)
            if len(missing) == len(texts):
                return made
            sent = {**sent, **dict(zip(missing, made, strict=True))}
        return np.stack([sent[text] for text in texts])

    def _holds(self, bullet: Bullet) -> bool:
        """Whether the index, or what it hides, has just this bullet."""
        if (hidden := self._hidden.get(bullet.id)) is not None:
            return hidden == bullet
        return self._index is not None and self._index.holds(bullet.id, bullet)

    def _knows(self, bullet_id: str) -> bool:
        return bullet_id in self._hidden or (self._index is not None and bullet_id in self._index)

    async def build_neighbours(self) -> None:
        """Prepare for queries that preselect, if the index has become so large."""
        if self._index is not None:
            await self._pool.run(self._index.build_neighbours)

    async def save(self) -> None:
        """Keep a snapshot, unless the one that is kept is of this revision."""
        if self._revision > self._saved:
            async with self._writing:
                revision, order, hidden = self._revision, list(self._order), list(self._hidden.values())
                index = await self._pool.run(self._index.export_state) if self._index else None
            await self._pool.run(self._snapshots.save, self.dataset, IndexSnapshot(revision, order, hidden, index))
            self._saved = revision

    async def _thaw(self) -> None:
        snapshot = await self._pool.run(self._snapshots.load, self.dataset)
        if snapshot is not None:
            if snapshot.index is not None:
                self._index = await self._pool.run(self._make.restore, snapshot.index)
            self._order = list(snapshot.order)
            self._hidden = {bullet.id: bullet for bullet in snapshot.hidden}
            self._revision = self._saved = snapshot.revision
            self._pulse()

    def _pulse(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _reason(self, revision: int) -> HanseiError:
        if isinstance(self.error, EmbeddingFailed):
            return EmbeddingFailed(self.error.cause)
        if self.error is not None:
            return PlaybookUnreachable(self.dataset, str(self.error))
        return RevisionNotReached(self.dataset, self._revision, revision)
