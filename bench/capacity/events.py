"""Discrete events: a clock, cores that work for several threads, and commits that are flushed in groups.

Callbacks instead of processes, so that an event costs one entry of a heap (ADR 226). Times are seconds.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable

Action = Callable[[], None]


class SimulatedClock:
    """The simulated time, and the actions that wait for theirs."""

    def __init__(self) -> None:
        self.now = 0.0
        self._actions: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()

    def call_at(self, when: float, action: Action) -> None:
        """Run an action at a time that is not in the past."""
        heapq.heappush(self._actions, (when, next(self._numbers), action))

    def call_later(self, delay: float, action: Action) -> None:
        """Run an action after a delay."""
        self.call_at(self.now + delay, action)

    def follow(self, arrivals: Iterable[tuple[float, Action]]) -> None:
        """Run actions at their times, which ascend; only the next one is held in memory."""
        remaining = iter(arrivals)

        def take_next() -> None:
            if arrival := next(remaining, None):
                when, action = arrival
                self.call_at(when, lambda: arrive(action))

        def arrive(action: Action) -> None:
            action()
            take_next()

        take_next()

    def run(self, until: float = math.inf) -> None:
        """Run all actions up to a time."""
        while self._actions and self._actions[0][0] <= until:
            self.now, _, action = heapq.heappop(self._actions)
            action()


class Core:
    """A processor core, which works for each runnable thread in turn, at most `quantum` seconds at once.

    Urgent threads come first, after the turn of another one: Linux prefers threads that slept, as event loops do.
    """

    def __init__(self, clock: SimulatedClock, quantum: float = math.inf) -> None:
        self._clock = clock
        self._quantum = quantum
        self._runnable: deque[tuple[float, Action]] = deque()
        self._urgent: deque[tuple[float, Action]] = deque()
        self._is_busy = False
        self.busy_seconds = 0.0

    def work(self, seconds: float, done: Action, is_urgent: bool = False) -> None:
        """Work for a thread, then call `done`."""
        (self._urgent if is_urgent else self._runnable).append((seconds, done))
        if not self._is_busy:
            self._take_next()

    def _take_next(self) -> None:
        threads = self._urgent or self._runnable
        self._is_busy = bool(threads)
        if not self._is_busy:
            return
        seconds, done = threads.popleft()
        turn = min(seconds, self._quantum)
        self.busy_seconds += turn

        def end_turn() -> None:
            if seconds > turn:
                threads.append((seconds - turn, done))
            else:
                done()
            self._take_next()

        self._clock.call_later(turn, end_turn)


class Threads:
    """Threads of a process on a core: an event loop is one, a pool has several. Jobs wait in the order of arrival."""

    def __init__(self, core: Core, count: int = 1, is_urgent: bool = False) -> None:
        self._core = core
        self._is_urgent = is_urgent
        self._idle = count
        self._jobs: deque[tuple[float, Action]] = deque()

    def run(self, seconds: float, done: Action) -> None:
        """Run a job of so many seconds of processor time, then call `done`."""
        self._jobs.append((seconds, done))
        self._start()

    def _start(self) -> None:
        while self._idle and self._jobs:
            seconds, done = self._jobs.popleft()
            self._idle -= 1

            def end(done: Action = done) -> None:
                self._idle += 1
                done()
                self._start()

            self._core.work(seconds, end, self._is_urgent)


class GroupCommits:
    """A writer that flushes one commit at a time, for at most `limit` callers that wait, as `libs.storage` does."""

    def __init__(self, clock: SimulatedClock, flush_seconds: float, limit: int) -> None:
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._limit = limit
        self._waiting: deque[Action] = deque()
        self._is_busy = False
        self.commits = 0

    def commit(self, done: Action) -> None:
        """Call `done` when the commit of this caller is on disk."""
        self._waiting.append(done)
        if not self._is_busy:
            self._flush()

    def _flush(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(self._limit, len(self._waiting)))]
        self._is_busy = bool(batch)
        if not batch:
            return
        self.commits += 1

        def end() -> None:
            for done in batch:
                done()
            self._flush()

        self._clock.call_later(self._flush_seconds, end)
