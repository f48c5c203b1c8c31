"""The budget of one rule: steps, time, size."""

from __future__ import annotations

import time
from collections.abc import Callable

from services.validator.domain.kind_definition import RuleLimits


class RuleTooExpensive(Exception):
    """A rule exceeded its limit of steps, time or size."""


class RuleBudget:
    """Steps and seconds of one rule on one report."""

    def __init__(self, limits: RuleLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = limits.steps
        self._clock = clock
        self._until = clock() + limits.seconds
        self.spent = False

    def spend_step(self) -> None:
        """Count one step. Raises RuleTooExpensive."""
        self._steps -= 1
        if self._steps < 0:
            self._exceed("steps")
        self.check_time()

    def check_time(self) -> None:
        """Raise RuleTooExpensive when the time is over."""
        if self._clock() > self._until:
            self._exceed("time")

    def refuse_larger(self, size: int, limit: int) -> None:
        """Raise RuleTooExpensive for a value of more than `limit` characters or elements."""
        if size > limit:
            self._exceed("size")

    def _exceed(self, limit_name: str) -> None:
        # The evaluating library may catch this exception; the budget therefore stays exceeded.
        self.spent = True
        raise RuleTooExpensive(limit_name)
