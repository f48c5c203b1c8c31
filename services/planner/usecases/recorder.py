"""One execution in the hands of one executor: its state, and what of it is not yet in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from services.planner.domain.events import Event, Recorded
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import apply, replay


class LogConflict(Exception):
    """Another writer appended to the log since it was last read."""


class ExecutionLog(Protocol):
    """The log of one execution, as the one executor that holds its lease sees it."""

    async def append(self, events: Sequence[tuple[Event, datetime]], after: int) -> None:
        """Appends all or nothing after sequence number `after`. Errors: Interleaved, LeaseLost."""

    async def read(self) -> Sequence[Recorded]:
        """The whole log."""


Listener = Callable[[ExecutionState, Event], None]


class ExecutionRecorder:
    """State and log of an execution.

    `record` changes the state at once and keeps the event for the next `flush`. Nothing may be done in the world
    on the strength of an event before the flush that holds it has returned.
    """

    def __init__(
        self,
        state: ExecutionState,
        log: ExecutionLog,
        clock: Callable[[], datetime],
        listener: Listener | None = None,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self.state = state
        self.interrupted = asyncio.Event()
        self.may_act = may_act
        self._log = log
        self._clock = clock
        self._listener = listener
        self._written = state.sequence
        self._buffer: list[tuple[Event, datetime]] = []

    def now(self) -> datetime:
        """The current time."""
        return self._clock()

    def record(self, event: Event) -> None:
        """Takes an event into the state and keeps it for the log."""
        at = self._clock()
        apply(self.state, event, at)
        self.state.sequence += 1
        self._buffer.append((event, at))
        if self._listener is not None:
            self._listener(self.state, event)

    async def flush(self) -> None:
        """Writes what was recorded. Events others wrote meanwhile go before it. Errors: LeaseLost."""
        while self._buffer:
            batch = list(self._buffer)
            try:
                await self._log.append(batch, self._written)
            except LogConflict:
                await self._reread()
                continue
            self._written += len(batch)
            del self._buffer[: len(batch)]

    async def refresh(self) -> None:
        """Takes in what others wrote."""
        self.interrupted.clear()
        await self._reread()

    async def _reread(self) -> None:
        log = await self._log.read()
        if not log:
            return
        state = replay(log)
        self._written = state.sequence
        for event, at in self._buffer:
            apply(state, event, at)
            state.sequence += 1
        self.state = state


def steady_clock(
    clock: Callable[[], datetime], monotonic: Callable[[], float], not_before: datetime
) -> Callable[[], datetime]:
    """A clock that goes on evenly from now, or from `not_before` if that is later, whatever the machine's does.

    So an execution takes as long as it takes, and time never runs backwards in its log.
    """
    time, began = max(clock(), not_before), monotonic()
    return lambda: time + timedelta(seconds=monotonic() - began)
