"""The calls in progress, so that a server can leave without breaking one."""

from __future__ import annotations

import asyncio
import time

from chassis.deadlines import Clock
from chassis.errors import Unavailable

DRAINING = "SERVER_DRAINING"
RETRY_SECONDS = 0.1


class CallsInProgress:
    """The tasks of all handlers. Endless ones (a watch) are ended when draining begins, all others are waited for."""

    def __init__(self) -> None:
        self._endless_by_task: dict[asyncio.Task[object], bool] = {}
        self._ended: set[asyncio.Task[object]] = set()
        self.draining = False

    def begin(self, *, endless: bool) -> asyncio.Task[object]:
        """Note that the current task handles a call. `Unavailable` for an endless one while draining."""
        if endless and self.draining:
            raise going_away()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call is handled in a task")
        self._endless_by_task[task] = endless
        return task

    def end(self, task: asyncio.Task[object]) -> None:
        """Note that the call of a task is over."""
        self._endless_by_task.pop(task, None)
        self._ended.discard(task)

    def was_ended(self, task: asyncio.Task[object]) -> bool:
        """Whether the call was cancelled by `end_endless`, rather than by its caller."""
        return task in self._ended

    def end_endless(self) -> None:
        """Begin to drain: endless calls end with UNAVAILABLE, their callers resume them elsewhere."""
        self.draining = True
        for task, endless in list(self._endless_by_task.items()):
            if endless and task not in self._ended:
                self._ended.add(task)
                task.cancel()

    async def settled(self, seconds: float, clock: Clock = time.monotonic) -> bool:
        """Wait until no call is in progress, at most `seconds`; tell whether that came about."""
        until = clock() + seconds
        while self._endless_by_task and clock() < until:
            await asyncio.wait(set(self._endless_by_task), timeout=max(0.0, until - clock()))
        return not self._endless_by_task


def going_away() -> Unavailable:
    """What a caller hears whose call ends because the server does."""
    return Unavailable("the server is shutting down", reason=DRAINING, retry_after=RETRY_SECONDS)
