"""The one layer that repeats model calls: attempts, backoff, deadline, and how many run at once.

Everything above it (LLMClient, the agents) and below it (the providers' libraries, opened with `max_retries=0`)
makes each call once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from libs.llm.errors import ModelDeadlineExceeded, ModelUnavailable

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is tried; times in seconds."""

    retries: int = 3
    base_seconds: float = 1.0
    max_seconds: float = 30.0
    """The longest pause between two attempts. A Retry-After beyond it is not waited for but told to the caller."""
    attempt_seconds: float = 60.0
    call_seconds: float = 180.0
    """For all attempts and pauses together; the caller's own deadline may be nearer."""


def no_deadline() -> float | None:
    """Seconds that a caller without a deadline has left."""
    return None


class Attempts:
    """Makes calls to one model, at most `concurrency` at a time, until they succeed or cannot any more.

    `failure_of` names what went wrong in an exception of the provider's library. `remaining` tells how many seconds
    the caller of this service has left (None: no deadline). Clock, sleep and rng (0..1) are injected for tests.
    """

    def __init__(
        self,
        model: str,
        policy: RetryPolicy,
        failure_of: Callable[[Exception], ModelUnavailable],
        *,
        concurrency: int = 8,
        remaining: Callable[[], float | None] = no_deadline,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._policy = policy
        self._failure_of = failure_of
        self._slots = asyncio.Semaphore(concurrency)
        self._remaining = remaining
        self._clock = clock
        self._sleep = sleep
        self._rng = rng

    async def run(self, call: Callable[[], Awaitable[T]], timeout_seconds: float | None = None) -> tuple[T, int]:
        """What `call` returned and the attempts it took; `timeout_seconds` may shorten the policy's `call_seconds`.

        Errors: ModelDeadlineExceeded; else the ModelUnavailable of the last attempt, whose `retry_after` is the
        provider's, if it sent one.
        """
        expires = self._expiry(timeout_seconds)
        attempt = 1
        while True:
            try:
                return await self._attempt(call, expires), attempt
            except ModelUnavailable as failure:
                pause = self._pause(failure, attempt, expires)
                if pause is None:
                    raise
                _log.warning("attempt %d failed, next in %.1f s: %s", attempt, pause, failure)
            await self._sleep(pause)
            attempt += 1

    def _expiry(self, timeout_seconds: float | None) -> float:
        limits = (self._policy.call_seconds, timeout_seconds, self._remaining())
        return self._clock() + min(limit for limit in limits if limit is not None)

    async def _attempt(self, call: Callable[[], Awaitable[T]], expires: float) -> T:
        """One call. Waiting for a slot counts against the caller's time, not against the attempt's."""
        try:
            async with asyncio.timeout(expires - self._clock()), self._slots:
                return await self._answer(call)
        except TimeoutError as error:
            raise ModelDeadlineExceeded(f"model {self._model}: no time left to wait for its answer") from error

    async def _answer(self, call: Callable[[], Awaitable[T]]) -> T:
        seconds = self._policy.attempt_seconds
        try:
            async with asyncio.timeout(seconds) as one:
                return await call()
        except Exception as error:
            if one.expired():
                raise ModelUnavailable(f"model {self._model} did not answer within {seconds:g} s") from None
            # The library's own text may repeat what was sent, the key included; failure_of has taken what may be told.
            raise self._failure_of(error) from None

    def _pause(self, failure: ModelUnavailable, attempt: int, expires: float) -> float | None:
        """Seconds to the next attempt; None when there is none.

        Exponential with full jitter (M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015), and
        on top of what the provider asked for.
        """
        if not failure.may_pass or attempt > self._policy.retries:
            return None
        asked = failure.retry_after or 0.0
        ceiling: float = min(self._policy.max_seconds, self._policy.base_seconds * 2.0 ** (attempt - 1))
        pause = asked + self._rng() * ceiling
        if asked > self._policy.max_seconds or self._clock() + pause >= expires:
            return None
        return pause
