"""The indexes of the playbooks that are in use."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context

from chassis.logging import get_logger
from chassis.repetition import repeat
from services.search.usecases.playbook_follower import PlaybookFollower

log = get_logger(__name__)

CreateFollower = Callable[[str], PlaybookFollower]


class _Generations:
    """The current index of a playbook and, during a cut-over, its next generation."""

    def __init__(self, followers: list[PlaybookFollower]) -> None:
        self._followers = followers
        self.uses = 0
        self.used_at = 0.0
        self._tasks = [
            # They outlive the call that starts them, so they must not run under its deadline.
            asyncio.get_running_loop().create_task(follower.run(), name=f"follow {follower.dataset}", context=Context())
            for follower in followers
        ]

    @property
    def current(self) -> PlaybookFollower:
        """Return the index that is searched now."""
        return self._followers[0]

    @property
    def memory_bytes(self) -> int:
        """Return the bytes that the indexes take in memory, by estimate."""
        return sum(follower.memory_bytes for follower in self._followers)

    @property
    def is_awaited(self) -> bool:
        """Return whether a call waits for one of the indexes."""
        return any(follower.is_awaited for follower in self._followers)

    def cut_over(self) -> PlaybookFollower:
        """Drop the former generation when the next one has reached its revision; return the current index."""
        former, *next_generation = self._followers
        if next_generation and former.is_open and next_generation[0].revision >= max(0, former.revision):
            self._followers.pop(0)
            self._tasks.pop(0).cancel()
        return self.current

    def stop(self) -> list[asyncio.Task[None]]:
        """Cancel the tasks, and return them."""
        for task in self._tasks:
            task.cancel()
        return self._tasks


class PlaybookIndexes:
    """Follows a playbook from its first use on; beyond the limit of memory, evicts the least recently used ones.

    An evicted index is saved first, so that its next use begins with the snapshot. The limit is enforced when a
    playbook is opened, and with each maintenance. One playbook is always followed, and none is evicted while a call
    waits for it.

    With each maintenance, an index is released like an evicted one if another replica is the first owner of its
    dataset and no call used it for `release_seconds`: the memory of the replicas falls when one is added.
    ``free_memory`` then gets the datasets.

    ``create_former`` returns the index of a playbook that another embedding model left behind, or None. That index
    is searched until the new one has reached its revision. No index ever holds vectors of both models.
    """

    def __init__(
        self,
        create: CreateFollower,
        memory_limit: int,
        create_former: Callable[[str], PlaybookFollower | None] = lambda dataset: None,
        *,
        is_first_owner: Callable[[str], bool] = lambda dataset: True,
        release_seconds: float = 300.0,
        free_memory: Callable[[Sequence[str]], Awaitable[object]] = lambda datasets: asyncio.sleep(0),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._create = create
        self._create_former = create_former
        self._memory_limit = memory_limit
        self._is_first_owner = is_first_owner
        self._release_seconds = release_seconds
        self._free_memory = free_memory
        self._now = now
        self._playbooks: OrderedDict[str, _Generations] = OrderedDict()
        self._opened = asyncio.Event()
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self.releases = 0

    def get_index(self, dataset: str) -> PlaybookFollower:
        """Return the current index of the dataset; start to follow the playbook if nobody did."""
        generations = self._playbooks.get(dataset)
        if generations is not None:
            self.hits += 1
            self._playbooks.move_to_end(dataset)
        else:
            self.misses += 1
            next_index, former = self._create(dataset), self._create_former(dataset)
            generations = _Generations([next_index] if former is None else [former, next_index])
            self._playbooks[dataset] = generations
            self._opened.set()
        generations.uses += 1
        generations.used_at = self._now()
        return generations.cut_over()

    def list_current(self) -> list[PlaybookFollower]:
        """Return the indexes that are searched now. Safe in any thread."""
        return [generations.current for generations in list(self._playbooks.values())]

    def count_memory(self) -> int:
        """Return the bytes that all indexes take in memory, by estimate. Safe in any thread."""
        return sum(generations.memory_bytes for generations in list(self._playbooks.values()))

    async def run_eviction(self) -> None:
        """Enforce the limit of memory whenever a playbook was opened, without end."""
        await repeat(0.0, self._evict_after_opening)

    async def _evict_after_opening(self) -> None:
        await self._opened.wait()
        self._opened.clear()
        await self.evict()

    async def evict(self) -> None:
        """Save and drop the least recently used indexes until the others fit into the limit of memory."""
        excess = self.count_memory() - self._memory_limit
        for dataset, generations in list(self._playbooks.items())[:-1]:
            if excess <= 0:
                return
            size = generations.memory_bytes
            if await self._drop(dataset):
                self.evictions += 1
                excess -= size
                log.debug("index evicted", dataset=dataset)

    async def release(self) -> None:
        """Save and drop the idle indexes of datasets whose first owner is another replica."""
        released: list[str] = []
        for dataset in list(self._playbooks):
            await asyncio.sleep(0)  # it takes a while to rank the replicas for thousands of datasets
            if self._is_idle(dataset) and not self._is_first_owner(dataset) and await self._drop(dataset):
                self.releases += 1
                released.append(dataset)
                log.debug("index released", dataset=dataset)
        if released:
            await self._free_memory(released)

    def _is_idle(self, dataset: str) -> bool:
        generations = self._playbooks.get(dataset)
        return generations is not None and self._now() - generations.used_at >= self._release_seconds

    async def _drop(self, dataset: str) -> bool:
        """Save and drop an index; return False if a call uses it or it was dropped meanwhile."""
        generations = self._playbooks.get(dataset)
        if generations is None or generations.is_awaited:
            return False
        uses = generations.uses
        await generations.cut_over().save()
        if generations.is_awaited or generations.uses != uses or self._playbooks.get(dataset) is not generations:
            return False
        del self._playbooks[dataset]
        await _finish(generations.stop())
        return True

    async def maintain(self) -> None:
        """Save changed indexes, free memory, and build the neighbours of grown indexes."""
        await self.save()
        await self.evict()
        await self.release()
        for generations in list(self._playbooks.values()):
            await generations.cut_over().build_neighbours()

    async def save(self) -> None:
        """Save snapshots of the changed indexes."""
        for generations in list(self._playbooks.values()):
            await generations.cut_over().save()

    async def close(self) -> None:
        """Stop following all playbooks."""
        tasks = [task for generations in self._playbooks.values() for task in generations.stop()]
        self._playbooks.clear()
        await _finish(tasks)


async def _finish(cancelled: list[asyncio.Task[None]]) -> None:
    """Wait until cancelled tasks have ended; they log their own failures."""
    if cancelled:
        await asyncio.wait(cancelled)  # unlike `gather`, it holds no exceptions, whose frames hold the indexes
