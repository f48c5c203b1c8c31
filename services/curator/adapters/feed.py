"""Who watches a dataset is woken by its commits: at once in this process, by polling for those of others.

The newest revisions are kept in memory, so that five hundred watchers of one dataset cost one read of the database, or
none. A watcher has no buffer of its own: it reads on from where it is, as fast as its client takes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from chassis.errors import HanseiError
from chassis.logging import get_logger
from services.curator.domain.log import Revision

_log_records = get_logger(__name__)

# Revisions are kept up to this many changed bullets per dataset, some MB at most.
KEPT_CHANGES = 1_000
READ_AT_ONCE = 100


class Log(Protocol):
    """Reads the log (see `PlaybookStore`)."""

    async def heads(self) -> dict[str, int]:
        """The newest revision of every dataset."""
        ...

    async def revisions_after(self, dataset: str, revision: int, limit: int) -> list[Revision]:
        """Revisions after `revision`, oldest first."""
        ...


class _Tail:
    """The newest revisions of a dataset, without gap, and the event of the next one."""

    def __init__(self) -> None:
        self.head = 0
        self.newest: deque[Revision] = deque()
        self.changes = 0
        self.next = asyncio.Event()

    def reach(self, head: int) -> None:
        if head > self.head:
            self.head = head
            self.next.set()
            self.next = asyncio.Event()

    def keep(self, revision: Revision) -> None:
        if self.newest and revision.number != self.newest[-1].number + 1:
            if revision.number <= self.newest[-1].number:
                return
            self.newest.clear()
            self.changes = 0
        self.newest.append(revision)
        self.changes += 1 + len(revision.changes)
        while self.changes > KEPT_CHANGES:
            self.changes -= 1 + len(self.newest.popleft().changes)

    def after(self, revision: int) -> Sequence[Revision] | None:
        """The kept revisions after `revision`; None when not all of them are kept."""
        if not self.newest or self.newest[0].number > revision + 1:
            return None
        return [one for one in self.newest if one.number > revision][:READ_AT_ONCE]


class RevisionFeed:
    """The revisions of all datasets as they are committed. Lives on one event loop.

    `poll_seconds` is how often other processes' commits are looked for; `sleep` is the loop's, injected for tests.
    """

    def __init__(
        self, log: Log, poll_seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._log = log
        self._poll_seconds = poll_seconds
        self._sleep = sleep
        self._tails: dict[str, _Tail] = {}
        self._reading: dict[str, asyncio.Lock] = {}

    def committed(self, revision: Revision) -> None:
        """A revision is on disk: its watchers are woken."""
        tail = self._tail(revision.dataset)
        tail.keep(revision)
        tail.reach(revision.number)

    def reached(self, dataset: str, revision: int) -> None:
        """Another process committed a revision: its watchers are woken, and read it."""
        self._tail(dataset).reach(revision)

    async def poll(self) -> None:
        """Looks for other processes' commits, forever."""
        while True:
            await self._sleep(self._poll_seconds)
            try:
                heads = await self._log.heads()
            except HanseiError as error:
                # The store may be away for a while; watchers wait, and see what they missed when it is back.
                _log_records.warning("feed cannot read new revisions", error=str(error))
                continue
            for dataset, head in heads.items():
                self.reached(dataset, head)

    async def after(self, dataset: str, revision: int) -> Sequence[Revision]:
        """Some revisions right after `revision`, oldest first, without gap; [] when there is none yet."""
        tail = self._tail(dataset)
        kept = tail.after(revision)
        if kept:
            return kept
        if tail.head and tail.head <= revision:
            return []
        # Watchers that wake together take turns, and all but the first find what that one read.
        async with self._reading.setdefault(dataset, asyncio.Lock()):
            kept = tail.after(revision)
            if kept:
                return kept
            revisions = await self._log.revisions_after(dataset, revision, READ_AT_ONCE)
            for one in revisions:
                if one.number > revision and (not tail.newest or one.number == tail.newest[-1].number + 1):
                    tail.keep(one)
            tail.reach(revisions[-1].number if revisions else revision)
            return revisions

    async def wait(self, dataset: str, revision: int, seconds: float) -> bool:
        """Waits until the dataset has a revision after `revision`; False when `seconds` passed without one."""
        tail = self._tail(dataset)
        if tail.head > revision:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(tail.next.wait(), seconds)
            return True
        return False

    def head(self, dataset: str) -> int:
        """The newest revision this process knows of."""
        return self._tail(dataset).head

    def _tail(self, dataset: str) -> _Tail:
        return self._tails.setdefault(dataset, _Tail())
