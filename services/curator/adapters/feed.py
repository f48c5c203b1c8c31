"""Wake the watchers of a dataset at each commit: of this process at once, of other processes by polling.

The newest revisions are cached, so that five hundred watchers of one dataset cost one read of the database, or none. A
watcher has no buffer of its own: it reads from its position, as fast as its client takes revisions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence

from chassis.repetition import repeat
from services.curator.domain.log import Revision, RevisionKind
from services.curator.usecases.ports import PlaybookStore

CACHED_CHANGES = 1_000
"""Changed bullets in the cached revisions of a dataset, some MB at most."""
READ_AT_ONCE = 100


class _Tail:
    """The newest revisions of a dataset, without gap, the event of the next one, and the turn to read the store."""

    def __init__(self) -> None:
        self.head = 0
        self.newest: deque[Revision] = deque()
        self.changes = 0
        self.next = asyncio.Event()
        self.reading = asyncio.Lock()
        self.users = 0

    def advance(self, head: int) -> None:
        """Wake the watchers if `head` is a new revision."""
        if head > self.head:
            self.head = head
            self.next.set()
            self.next = asyncio.Event()

    def append(self, revision: Revision) -> None:
        """Cache the next revision; after a gap, and of a deleted dataset, only this one."""
        newest = self.newest[-1].number if self.newest else 0
        if revision.number <= newest:
            return
        if revision.number > newest + 1 or revision.origin.kind is RevisionKind.DELETE:
            self.newest.clear()
            self.changes = 0
        self.newest.append(revision)
        self.changes += 1 + len(revision.changes)
        while self.changes > CACHED_CHANGES:
            self.changes -= 1 + len(self.newest.popleft().changes)

    def list_revisions_after(self, number: int) -> Sequence[Revision] | None:
        """Return the cached revisions after `number`; None when not all of them are cached."""
        if not self.newest or self.newest[0].number > number + 1:
            return None
        return [revision for revision in self.newest if revision.number > number][:READ_AT_ONCE]


class RevisionFeed:
    """The revisions of all datasets as they are committed, for one event loop.

    `poll_seconds` is the time from one search for commits of other processes to the next.
    """

    def __init__(
        self, store: PlaybookStore, poll_seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._sleep = sleep
        self._tails: dict[str, _Tail] = {}

    def publish(self, revision: Revision) -> None:
        """Wake the watchers of a revision that is on disk."""
        tail = self._get_tail(revision.dataset)
        tail.append(revision)
        tail.advance(revision.number)

    def advance(self, dataset: str, revision: int) -> None:
        """Wake the watchers of a revision that another process committed; they read it."""
        self._get_tail(dataset).advance(revision)

    async def poll(self) -> None:
        """Search for commits of other processes, forever."""
        # Watchers wait while the store does not answer, and get the missed revisions afterwards.
        await repeat(self._poll_seconds, self._read_heads, first_pause=self._poll_seconds, sleep=self._sleep)

    async def _read_heads(self) -> None:
        for dataset, head in (await self._store.list_heads()).items():
            self.advance(dataset, head)

    async def list_revisions_after(self, dataset: str, number: int) -> Sequence[Revision]:
        """Return some revisions right after `number`, oldest first, without gap; [] when there is none yet."""
        with self._use_tail(dataset) as tail:
            if cached := tail.list_revisions_after(number):
                return cached
            if tail.head and tail.head <= number:
                return []
            # Watchers that wake together take turns; all but the first find the revisions in the cache.
            async with tail.reading:
                if cached := tail.list_revisions_after(number):
                    return cached
                revisions = await self._store.list_revisions_after(dataset, number, READ_AT_ONCE)
                for revision in revisions:
                    if not tail.newest or revision.number == tail.newest[-1].number + 1:
                        tail.append(revision)
                tail.advance(revisions[-1].number if revisions else number)
                return revisions

    async def wait(self, dataset: str, revision: int, seconds: float) -> bool:
        """Return True once the dataset has a revision after `revision`, False after `seconds` without one."""
        with self._use_tail(dataset) as tail, contextlib.suppress(TimeoutError):
            if tail.head <= revision:
                await asyncio.wait_for(tail.next.wait(), seconds)
            return True
        return False

    def get_head(self, dataset: str) -> int:
        """Return the newest revision that this process knows."""
        tail = self._tails.get(dataset)
        return tail.head if tail else 0

    @contextlib.contextmanager
    def _use_tail(self, dataset: str) -> Iterator[_Tail]:
        """Yield the tail of a dataset; one without a revision is forgotten after its use: any name can be watched."""
        tail = self._get_tail(dataset)
        tail.users += 1
        try:
            yield tail
        finally:
            tail.users -= 1
            if not tail.users and not tail.head:
                self._tails.pop(dataset, None)

    def _get_tail(self, dataset: str) -> _Tail:
        return self._tails.setdefault(dataset, _Tail())
