"""The retry policy: attempts and pauses with exponential backoff and full jitter.

gRPC's own retries of a call are in the channel's service config, see `chassis.channels`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception

T = TypeVar("T")
Predicate = Callable[[BaseException], bool]
_LARGEST_EXPONENT = 60


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts, and the pauses between them; times in seconds.

    A pause is chosen at random between 0 and a ceiling that grows with each attempt (M. Brooker, "Exponential Backoff
    and Jitter", AWS Architecture Blog, 2015), and is added to the `retry_after` of the error.
    """

    attempts: int | None = 4
    """None: no limit."""
    first_pause: float = 1.0
    factor: float = 2.0
    longest_pause: float = 30.0
    """The highest ceiling, and the upper limit of a `retry_after`."""
    total_seconds: float | None = None
    """The limit of all attempts and pauses together; a pause that would exceed it is not started."""
    is_exact: bool = False
    """True: each pause is exactly its ceiling, without jitter and without the `retry_after` of the error."""

    def pause(self, attempt: int, retry_after: float | None, rng: Callable[[], float] = random.random) -> float:
        """Return the seconds to wait after an attempt, counted from 1, whose error may have a `retry_after`."""
        ceiling = min(self.longest_pause, self.first_pause * self.factor ** min(attempt - 1, _LARGEST_EXPONENT))
        return ceiling if self.is_exact else min(retry_after or 0.0, self.longest_pause) + rng() * ceiling

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        retry_on: Predicate,
        *,
        before_pause: Callable[[int, float, BaseException], None] = lambda attempt, pause, error: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> tuple[T, int]:
        """Return the result of `work` and the number of attempts. Raises the error of the last attempt.

        `before_pause` is called with the number of the failed attempt, the pause and the error.
        """
        attempts = AsyncRetrying(
            retry=retry_if_exception(retry_on),
            stop=self._stop(clock),
            wait=lambda state: self.pause(state.attempt_number, _retry_after(state), rng),
            before_sleep=lambda state: before_pause(state.attempt_number, state.upcoming_sleep, _get_error(state)),
            sleep=sleep,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                return await work(), attempt.retry_state.attempt_number
        raise AssertionError("unreachable: the last attempt returns or raises")

    def run_blocking(self, work: Callable[[], T], retry_on: Predicate) -> T:
        """Return the result of `work`, without an event loop. Raises the error of the last attempt."""
        return Retrying(
            retry=retry_if_exception(retry_on),
            stop=self._stop(time.monotonic),
            wait=lambda state: self.pause(state.attempt_number, _retry_after(state)),
            reraise=True,
        )(work)

    def _stop(self, clock: Callable[[], float]) -> Callable[[RetryCallState], bool]:
        expires = None if self.total_seconds is None else clock() + self.total_seconds

        def is_over(state: RetryCallState) -> bool:
            if self.attempts is not None and state.attempt_number >= self.attempts:
                return True
            return expires is not None and clock() + state.upcoming_sleep >= expires

        return is_over


def _get_error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    if error is None:
        raise RuntimeError("a pause follows only a failed attempt")
    return error


def _retry_after(state: RetryCallState) -> float | None:
    return getattr(_get_error(state), "retry_after", None)
