"""The indexes of all playbooks that are asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import Context

from services.search.usecases.follow_playbook import FollowedPlaybook

Follow = Callable[[str], FollowedPlaybook]


class _Followed:
    """The index of a playbook that answers, and the one that is to take its place as soon as it holds as much."""

    def __init__(self, playbook: FollowedPlaybook, successor: FollowedPlaybook | None) -> None:
        self.playbooks = [playbook] if successor is None else [playbook, successor]
        self._tasks = [
            # They outlive the call that asked for them first, so they must not run under that call's deadline.
            asyncio.get_running_loop().create_task(each.run(), name=f"follow {each.dataset}", context=Context())
            for each in self.playbooks
        ]

    @property
    def answering(self) -> FollowedPlaybook:
        """The index that answers now."""
        if len(self.playbooks) == 1:
            return self.playbooks[0]
        first, *others = self.playbooks
        if first.opened and any(other.revision >= max(0, first.revision) for other in others):
            self.playbooks.pop(0)
            self._tasks.pop(0).cancel()
        return self.playbooks[0]

    def stop(self) -> list[asyncio.Task[None]]:
        """Stop following; what is left to wait for."""
        for task in self._tasks:
            task.cancel()
        return self._tasks


class PlaybookIndexes:
    """Follows a playbook from the first time it is asked for; the one not asked for longest makes room.

    ``predecessor`` gives the index of a playbook that another embedding model left behind, if it can still be asked:
    it answers until the new one holds as much, and then the new one does. No index ever holds vectors of both.
    """

    def __init__(
        self, follow: Follow, most: int, predecessor: Callable[[str], FollowedPlaybook | None] = lambda dataset: None
    ) -> None:
        self._follow = follow
        self._most = most
        self._predecessor = predecessor
        self._followed: OrderedDict[str, _Followed] = OrderedDict()

    def of(self, dataset: str) -> FollowedPlaybook:
        """The index of the dataset, which from now on is followed."""
        followed = self._followed.get(dataset)
        if followed is None:
            playbook, before = self._follow(dataset), self._predecessor(dataset)
            followed = _Followed(playbook, None) if before is None else _Followed(before, playbook)
            self._followed[dataset] = followed
            if len(self._followed) > self._most:
                _, oldest = self._followed.popitem(last=False)
                oldest.stop()
        self._followed.move_to_end(dataset)
        return followed.answering

    def followed(self) -> list[FollowedPlaybook]:
        """The indexes that answer now. Safe in any thread."""
        return [each.playbooks[0] for each in list(self._followed.values())]

    async def keep_up(self, seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Keep snapshots of what has changed and build neighbours of what has grown, for ever, with pauses."""
        while True:
            await sleep(seconds)
            await self.save()
            for followed in list(self._followed.values()):
                await followed.answering.build_neighbours()

    async def save(self) -> None:
        """Keep snapshots of what has changed."""
        for followed in list(self._followed.values()):
            await followed.answering.save()

    async def close(self) -> None:
        """Stop following."""
        tasks = [task for followed in self._followed.values() for task in followed.stop()]
        self._followed.clear()
        # Each tells itself what it fails with, and goes on.
        await asyncio.gather(*tasks, return_exceptions=True)
