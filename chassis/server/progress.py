"""The calls in progress, so that a server can stop without failing one."""

from __future__ import annotations

import asyncio
import time

from chassis.deadlines import Clock
from chassis.errors import Unavailable

DRAINING = "SERVER_DRAINING"
RETRY_SECONDS = 0.1


class CallsInProgress:
    """The tasks of all handlers. A drain ends endless calls (a watch) and waits for all others."""

    def __init__(self) -> None:
        self._endless_by_task: dict[asyncio.Task[object], bool] = {}
        self._ended: set[asyncio.Task[object]] = set()
        self.draining = False

    def begin(self, *, endless: bool) -> asyncio.Task[object]:
        """Record that the current task handles a call. Raises `Unavailable` for an endless one while draining."""
        if endless and self.draining:
            raise build_draining_error()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("calls must run in an asyncio task")
        self._endless_by_task[task] = endless
        return task

    def end(self, task: asyncio.Task[object]) -> None:
        """Record that the call of a task has ended."""
        self._endless_by_task.pop(task, None)
        self._ended.discard(task)

    def was_ended(self, task: asyncio.Task[object]) -> bool:
        """Return whether `end_endless` cancelled the call, and not its caller."""
        return task in self._ended

    def end_endless(self) -> None:
        """Begin to drain: endless calls end with UNAVAILABLE, and their callers resume them elsewhere."""
        self.draining = True
        for task, endless in list(self._endless_by_task.items()):
            if endless and task not in self._ended:
                self._ended.add(task)
                task.cancel()

    async def wait_until_idle(self, seconds: float, clock: Clock = time.monotonic) -> bool:
        """Wait at most `seconds` until no call is in progress; return whether none is."""
        until = clock() + seconds
        while self._endless_by_task and clock() < until:
            await asyncio.wait(set(self._endless_by_task), timeout=max(0.0, until - clock()))
        return not self._endless_by_task


def build_draining_error() -> Unavailable:
    """Return the error of calls that end because the server stops."""
    return Unavailable("the server is shutting down", reason=DRAINING, retry_after=RETRY_SECONDS)
