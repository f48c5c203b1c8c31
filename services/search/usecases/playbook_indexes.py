"""The indexes of all playbooks that are asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import Context

from services.search.usecases.follow_playbook import FollowedPlaybook


class PlaybookIndexes:
    """Follows a playbook from the first time it is asked for; the one not asked for longest makes room."""

    def __init__(self, follow: Callable[[str], FollowedPlaybook], most: int) -> None:
        self._follow = follow
        self._most = most
        self._followed: OrderedDict[str, tuple[FollowedPlaybook, asyncio.Task[None]]] = OrderedDict()

    def of(self, dataset: str) -> FollowedPlaybook:
        """The index of the dataset, which from now on is followed."""
        if dataset not in self._followed:
            playbook = self._follow(dataset)
            # It outlives the call that asked for it first, so it must not run under that call's deadline.
            task = asyncio.get_running_loop().create_task(playbook.run(), name=f"follow {dataset}", context=Context())
            self._followed[dataset] = playbook, task
            if len(self._followed) > self._most:
                _, (_, oldest) = self._followed.popitem(last=False)
                oldest.cancel()
        self._followed.move_to_end(dataset)
        return self._followed[dataset][0]

    async def keep_up(self, seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Keep snapshots of what has changed and cluster what has grown, for ever, with a pause in between."""
        while True:
            await sleep(seconds)
            await self.save()
            for playbook, _ in list(self._followed.values()):
                await playbook.cluster()

    async def save(self) -> None:
        """Keep snapshots of what has changed."""
        for playbook, _ in list(self._followed.values()):
            await playbook.save()

    async def close(self) -> None:
        """Stop following."""
        tasks = [task for _, task in self._followed.values()]
        self._followed.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
