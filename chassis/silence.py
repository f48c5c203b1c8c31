"""Which holders of leases are gone, told by this process's own monotonic clock.

A holder that lives changes its mark in a database again and again. One whose mark stays the same for as long as a lease
lasts is gone. Clocks are never compared, so one that jumps, or is wrong, makes nobody look dead who is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class Silence(Generic[Holder]):
    """For how long each holder's mark has been the same. `seconds` is how long a lease lasts."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._since: dict[Holder, tuple[object, float]] = {}

    def of(self, marks: Mapping[Holder, object]) -> list[Holder]:
        """Those whose mark has been the same for a lease. `marks` is what stands there now, of all holders."""
        now, before = self._clock(), self._since
        self._since = {
            holder: before[holder] if holder in before and before[holder][0] == mark else (mark, now)
            for holder, mark in marks.items()
        }
        return [holder for holder, (_, since) in self._since.items() if now - since >= self._seconds]
