"""The caller's deadline in a context variable, because gRPC for Python does not propagate it."""

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


def get_remaining(clock: Clock = time.monotonic) -> float | None:
    """Return the seconds until the current deadline, negative once it has passed; None without a deadline."""
    expires_at = _expires_at.get()
    return None if expires_at is None else expires_at - clock()


@contextmanager
def time_limit(seconds: float | None, clock: Clock = time.monotonic) -> Iterator[None]:
    """Limit the calls of a block to `seconds`; an earlier deadline of the caller stays."""
    token = _expires_at.set(_find_earlier_deadline(seconds, clock))
    try:
        yield
    finally:
        _expires_at.reset(token)


def begin(seconds: float | None, clock: Clock = time.monotonic) -> None:
    """Set the deadline of an arriving call for the rest of its task. Raises `DeadlineExceeded` if it has passed."""
    if seconds is not None and seconds <= 0:
        raise DeadlineExceeded("the deadline passed before the call began: set a longer one")
    _expires_at.set(_find_earlier_deadline(seconds, clock))


def compute_budget(policy_seconds: float | None, clock: Clock = time.monotonic) -> float | None:
    """Return the seconds that an outgoing call may take: its policy, or the remaining time less a reserve.

    The reserve is for reporting the outcome. None means no limit. Raises `DeadlineExceeded` when no time is left.
    """
    left = get_remaining(clock)
    if left is None:
        return policy_seconds
    left -= min(RESERVE_MAX_SECONDS, max(RESERVE_MIN_SECONDS, RESERVE_SHARE * left))
    if left <= 0:
        raise DeadlineExceeded("the deadline leaves no time for another call: set a longer one")
    return left if policy_seconds is None else min(left, policy_seconds)


def _find_earlier_deadline(seconds: float | None, clock: Clock) -> float | None:
    """Return the time in `seconds` from now, or the current deadline if it is earlier."""
    current = _expires_at.get()
    if seconds is None:
        return current
    expires_at = clock() + seconds
    return expires_at if current is None else min(current, expires_at)
