"""The caller's deadline, carried in a context variable, because gRPC for Python does not hand it on by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from chassis.errors import DeadlineExceeded

Clock = Callable[[], float]

_expires_at: ContextVar[float | None] = ContextVar("deadline", default=None)

RESERVE_SHARE = 0.05
RESERVE_MIN_SECONDS = 0.005
RESERVE_MAX_SECONDS = 0.25


def remaining(clock: Clock = time.monotonic) -> float | None:
    """Seconds until the deadline in force, negative once it has passed; None if there is none."""
    expires_at = _expires_at.get()
    return None if expires_at is None else expires_at - clock()


@contextmanager
def within(seconds: float | None, clock: Clock = time.monotonic) -> Iterator[None]:
    """Put a deadline in force. It can only tighten: an earlier one of the caller stays."""
    token = _expires_at.set(_earlier(seconds, clock))
    try:
        yield
    finally:
        _expires_at.reset(token)


def begin(seconds: float | None, clock: Clock = time.monotonic) -> None:
    """Put the deadline of an arriving call in force for the rest of its task. `DeadlineExceeded` if it is over."""
    if seconds is not None and seconds <= 0:
        raise DeadlineExceeded("the deadline was over before the call began")
    _expires_at.set(_earlier(seconds, clock))


def budget(policy_seconds: float | None, clock: Clock = time.monotonic) -> float | None:
    """Seconds an outgoing call may take: min(its policy, what remains here less a reserve to report the outcome).

    None: neither bounds it. Raises `DeadlineExceeded` when nothing is left, so that no call is made in vain.
    """
    left = remaining(clock)
    if left is None:
        return policy_seconds
    left -= min(RESERVE_MAX_SECONDS, max(RESERVE_MIN_SECONDS, RESERVE_SHARE * left))
    if left <= 0:
        raise DeadlineExceeded("no time is left for another call")
    return left if policy_seconds is None else min(left, policy_seconds)


def _earlier(seconds: float | None, clock: Clock) -> float | None:
    current = _expires_at.get()
    if seconds is None:
        return current
    expires_at = clock() + seconds
    return expires_at if current is None else min(current, expires_at)
