"""The state of an execution and the events that are not yet in its log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from services.planner.domain.events import Event, RecordedEvent
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import apply, replay


class LogConflict(Exception):
    """Another writer appended to the log since it was last read."""


class ExecutionLog(Protocol):
    """The log of one execution, as the holder of its lease writes it."""

    async def append(self, events: Sequence[tuple[Event, datetime]], after: int, state: ExecutionState) -> None:
        """Append all or nothing after number `after`; `state` includes the events. Raises LogConflict, LeaseLost."""

    async def read(self) -> Sequence[RecordedEvent]:
        """Return the whole log."""


Listener = Callable[[ExecutionState, Event], None]


class ExecutionRecorder:
    """State and log of an execution.

    `record` changes the state at once and buffers the event until the next `flush`. No side effect that depends on an
    event may begin before the flush of this event has returned.
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
        self._flushed = state.sequence
        self._buffer: list[tuple[Event, datetime]] = []

    def get_time(self) -> datetime:
        """Return the current time."""
        return self._clock()

    def record(self, event: Event) -> None:
        """Apply an event to the state and buffer it for the log."""
        time = self._clock()
        apply(self.state, event, time)
        self.state.sequence += 1
        self._buffer.append((event, time))
        if self._listener is not None:
            self._listener(self.state, event)

    async def flush(self) -> None:
        """Write the buffered events, after those that others wrote meanwhile. Raises LeaseLost."""
        while self._buffer:
            batch = list(self._buffer)
            try:
                await self._log.append(batch, self._flushed, self.state)
            except LogConflict:
                await self._reread()
                continue
            self._flushed += len(batch)
            del self._buffer[: len(batch)]

    async def refresh(self) -> None:
        """Read the events that others wrote."""
        self.interrupted.clear()
        await self._reread()

    async def _reread(self) -> None:
        log = await self._log.read()
        if not log:
            return
        state = replay(log)
        self._flushed = state.sequence
        for event, time in self._buffer:
            apply(state, event, time)
            state.sequence += 1
        self.state = state


def create_steady_clock(
    clock: Callable[[], datetime], monotonic: Callable[[], float], not_before: datetime
) -> Callable[[], datetime]:
    """Return a clock that advances evenly from now, or from `not_before` if that is later.

    So jumps of the machine's clock neither shorten nor lengthen an execution, and time never decreases in its log.
    """
    start, began = max(clock(), not_before), monotonic()
    return lambda: start + timedelta(seconds=monotonic() - began)
