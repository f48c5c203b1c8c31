"""The indexes of the playbooks that are in use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

from services.search.usecases.evicting_cache import EvictingCache
from services.search.usecases.playbook_follower import PlaybookFollower

CreateFollower = Callable[[str], PlaybookFollower]


class _Generations:
    """The current index of a playbook and, during a cut-over, its next generation."""

    def __init__(self, followers: list[PlaybookFollower]) -> None:
        self._followers = followers
        self._tasks = [
            # They outlive the call that starts them, so they must not run under its deadline.
            asyncio.get_running_loop().create_task(follower.run(), name=f"follow {follower.dataset}", context=Context())
            for follower in followers
        ]

    @property
    def current(self) -> PlaybookFollower:
        """Return the index that is searched now."""
        return self._followers[0]

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
    """Follows a playbook from its first use on; beyond the capacity, stops following the least recently used one.

    ``create_former`` returns the index of a playbook that another embedding model left behind, or None. That index
    is searched until the new one has reached its revision. No index ever holds vectors of both models.
    """

    def __init__(
        self,
        create: CreateFollower,
        capacity: int,
        create_former: Callable[[str], PlaybookFollower | None] = lambda dataset: None,
    ) -> None:
        self._create = create
        self._create_former = create_former
        self._playbooks = EvictingCache[_Generations](capacity, lambda generations: generations.stop())

    def get_index(self, dataset: str) -> PlaybookFollower:
        """Return the current index of the dataset; start to follow the playbook if nobody did."""
        generations = self._playbooks.get(dataset)
        if generations is None:
            next_index, former = self._create(dataset), self._create_former(dataset)
            generations = _Generations([next_index] if former is None else [former, next_index])
            self._playbooks[dataset] = generations
        return generations.cut_over()

    def list_current(self) -> list[PlaybookFollower]:
        """Return the indexes that are searched now. Safe in any thread."""
        return [generations.current for generations in self._playbooks.peek_values()]

    async def run_maintenance(self, seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Save changed indexes and build neighbours of grown ones, without end, with pauses."""
        while True:
            await sleep(seconds)
            await self.save()
            for generations in self._playbooks.peek_values():
                await generations.cut_over().build_neighbours()

    async def save(self) -> None:
        """Save snapshots of the changed indexes."""
        for generations in self._playbooks.peek_values():
            await generations.cut_over().save()

    async def close(self) -> None:
        """Stop following all playbooks."""
        tasks = [task for generations in self._playbooks.peek_values() for task in generations.stop()]
        self._playbooks.clear()
        # The tasks log their own failures.
        await asyncio.gather(*tasks, return_exceptions=True)
