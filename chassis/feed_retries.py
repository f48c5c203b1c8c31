"""Failures of a change feed that a service follows without end: their pauses, and the log records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from chassis.retry import RetryPolicy

FEED_RETRIES = RetryPolicy(attempts=None, first_pause=0.2, longest_pause=5.0)
QUIET_SECONDS = 30.0
"""The pauses of failures in a row that a restart of the other service, or the stop of this process, may cause."""


class FeedRetries:
    """The failures in a row of one feed. They are warnings only when they last longer than a restart."""

    def __init__(
        self,
        log: Any,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._log = log
        self._sleep = sleep
        self._rng = rng
        self._ends = 0
        self._paused_seconds = 0.0

    def reset(self) -> None:
        """Begin a new count: the feed works."""
        self._ends, self._paused_seconds = 0, 0.0

    def log_failure(self, message: str, **facts: object) -> None:
        """Log a failure."""
        log = self._log.warning if self._paused_seconds >= QUIET_SECONDS else self._log.debug
        log(message, **facts)

    async def pause(self) -> None:
        """Wait before the feed is opened again, longer after each of its ends in a row."""
        self._ends += 1
        seconds = FEED_RETRIES.pause(self._ends, None, self._rng)
        self._paused_seconds += seconds
        await self._sleep(seconds)
