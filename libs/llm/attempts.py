"""The one layer that repeats model calls: attempts, backoff, deadline, and how many run at once.

Everything above it (LLMClient, the agents) and below it (the providers' libraries, opened with `max_retries=0`)
makes each call once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from libs.llm.errors import ModelDeadlineExceeded, ModelUnavailable

T = TypeVar("T")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How often and how long a model is called; times in seconds."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """A Retry-After beyond its longest pause is not waited for: the caller gets it."""
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
        policy: CallPolicy,
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
        """Return what `call` returned and the attempts it took; `timeout_seconds` may shorten `call_seconds`.

        Errors: ModelDeadlineExceeded; else the ModelUnavailable of the last attempt, whose `retry_after` is the
        provider's, if it sent one.
        """
        limits = (self._policy.call_seconds, timeout_seconds, self._remaining())
        seconds = min(limit for limit in limits if limit is not None)
        expires = self._clock() + seconds
        return await replace(self._policy.retry, total_seconds=seconds).run(
            lambda: self._attempt(call, expires),
            self._may_pass,
            before_pause=lambda attempt, pause, error: log.warning(
                "model call failed; trying again", attempt=attempt, pause_seconds=round(pause, 1), why=str(error)
            ),
            clock=self._clock,
            sleep=self._sleep,
            rng=self._rng,
        )

    def _may_pass(self, error: BaseException) -> bool:
        longest = self._policy.retry.longest_pause
        return isinstance(error, ModelUnavailable) and error.may_pass and (error.retry_after or 0.0) <= longest

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
