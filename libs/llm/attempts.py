"""Retries of model calls: the only layer that repeats a call, with backoff, deadline and concurrency limit.

LLMClient and the agents above it, and the providers' libraries below it (`max_retries=0`), make each call once.
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
    """The retry policy and the time limits of model calls, in seconds."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """A Retry-After longer than the longest pause is returned to the caller instead of waited for."""
    attempt_seconds: float = 60.0
    call_seconds: float = 180.0
    """The limit for all attempts and pauses together; the caller's own deadline may be earlier."""


def report_no_deadline() -> float | None:
    """Return the remaining seconds of a caller without a deadline: None."""
    return None


class Attempts:
    """Makes calls to one model, at most `concurrency` at a time, and repeats those that fail for a transient reason.

    `failure_of` converts an exception of the provider's library. `remaining` returns the seconds that the caller of
    this service has left (None: no deadline). Tests inject clock, sleep and rng (0..1).
    """

    def __init__(
        self,
        model: str,
        policy: CallPolicy,
        failure_of: Callable[[Exception], ModelUnavailable],
        *,
        concurrency: int = 8,
        remaining: Callable[[], float | None] = report_no_deadline,
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

    async def run(self, call: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """Return the result of `call` and the number of attempts.

        Raises:
            ModelDeadlineExceeded: The time ran out.
            ModelUnavailable: The last attempt failed; `retry_after` is the provider's, if it sent one.
        """
        remaining = self._remaining()
        seconds = self._policy.call_seconds if remaining is None else min(self._policy.call_seconds, remaining)
        expires = self._clock() + seconds
        return await replace(self._policy.retry, total_seconds=seconds).run(
            lambda: self._attempt_once(call, expires),
            self._is_transient,
            before_pause=lambda attempt, pause, error: log.warning(
                "model call failed; retrying", attempt=attempt, pause_seconds=round(pause, 1), error=str(error)
            ),
            clock=self._clock,
            sleep=self._sleep,
            rng=self._rng,
        )

    def _is_transient(self, error: BaseException) -> bool:
        longest = self._policy.retry.longest_pause
        return isinstance(error, ModelUnavailable) and error.is_transient and (error.retry_after or 0.0) <= longest

    async def _attempt_once(self, call: Callable[[], Awaitable[T]], expires: float) -> T:
        """Make one call. The wait for a slot counts towards the caller's deadline, not towards the attempt's."""
        try:
            async with asyncio.timeout(expires - self._clock()), self._slots:
                return await self._await_reply(call)
        except TimeoutError as error:
            raise ModelDeadlineExceeded(f"model {self._model}: the deadline leaves no time for a call") from error

    async def _await_reply(self, call: Callable[[], Awaitable[T]]) -> T:
        seconds = self._policy.attempt_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                return await call()
        except Exception as error:
            if limit.expired():
                raise ModelUnavailable(f"model {self._model} did not answer within {seconds:g} s") from None
            # The library's text may repeat the request and its key: failure_of has copied the part that is safe.
            raise self._failure_of(error) from None
