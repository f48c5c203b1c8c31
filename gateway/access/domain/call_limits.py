"""Limits of a credential: a token bucket for calls a second, a count for calls a day (UTC).

A gateway counts its own calls; the counts of all replicas of a day are added up whenever they are saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cachetools import LRUCache

from gateway.access.domain.errors import QuotaExceeded, RateExceeded
from gateway.access.domain.principal import Principal

MAX_CREDENTIALS = 10_000
"""Credentials whose buckets are kept; the least recently used is dropped, and starts again with a full bucket."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class CallLimits:
    """Counts calls. `seconds` is a monotonic clock, `now` returns the present time in UTC."""

    def __init__(self, seconds: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._seconds = seconds
        self._now = now
        self._buckets: LRUCache[str, _Bucket] = LRUCache(MAX_CREDENTIALS)
        self._day = ""
        self._saved: dict[str, int] = {}
        self._unsaved: dict[str, int] = {}

    def count_call(self, principal: Principal) -> None:
        """Count one call. Raises RateExceeded, QuotaExceeded; a refused call is not counted."""
        now = self._now()
        self._start_day(now)
        daily, name = principal.allowance.calls_per_day, principal.name
        if daily and self._saved.get(name, 0) + self._unsaved.get(name, 0) >= daily:
            tomorrow = datetime(now.year, now.month, now.day, tzinfo=now.tzinfo) + timedelta(days=1)
            raise QuotaExceeded(daily, (tomorrow - now).total_seconds())
        if principal.allowance.calls_per_second:
            self._take_token(name, principal.allowance.calls_per_second)
        self._unsaved[name] = self._unsaved.get(name, 0) + 1

    def take_unsaved_counts(self) -> tuple[str, Mapping[str, int]]:
        """Return the day and the unsaved calls of each credential; they count as saved from now on."""
        self._start_day(self._now())
        counts, self._unsaved = self._unsaved, {}
        for name, calls in counts.items():
            self._saved[name] = self._saved.get(name, 0) + calls
        return self._day, counts

    def return_unsaved_counts(self, day: str, counts: Mapping[str, int]) -> None:
        """Count calls that could not be saved as unsaved again."""
        if day == self._day:
            for name, calls in counts.items():
                self._saved[name] -= calls
                self._unsaved[name] = self._unsaved.get(name, 0) + calls

    def update_totals(self, day: str, totals: Mapping[str, int]) -> None:
        """Take over the saved counts of all gateways of a day."""
        if day == self._day:
            self._saved.update(totals)

    def _take_token(self, name: str, rate: float) -> None:
        """Take a token from a bucket that holds the tokens of one second, at least one."""
        at, size = self._seconds(), max(1.0, rate)
        bucket = self._buckets.setdefault(name, _Bucket(size, at))
        bucket.tokens = min(size, bucket.tokens + (at - bucket.filled_at) * rate)
        bucket.filled_at = at
        if bucket.tokens < 1:
            raise RateExceeded(rate, (1 - bucket.tokens) / rate)
        bucket.tokens -= 1

    def _start_day(self, now: datetime) -> None:
        day = now.date().isoformat()
        if day != self._day:
            self._day, self._saved, self._unsaved = day, {}, {}
