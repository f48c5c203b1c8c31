"""Admission control: a limit on concurrent calls; further calls are refused with a time to retry after."""

from __future__ import annotations

from types import TracebackType

from chassis.errors import ResourceExhausted

OVERLOADED = "OVERLOADED"


class Admission:
    """A limit on calls in flight: use ``with admission:`` for each. Raises `ResourceExhausted` at the limit."""

    def __init__(self, noun: str, limit: int, retry_after: float) -> None:
        self._noun = noun
        self._limit = limit
        self._retry_after = retry_after
        self.in_flight = 0

    def __enter__(self) -> None:
        if self.in_flight >= self._limit:
            raise ResourceExhausted(
                f"{self.in_flight} {self._noun} are in flight, the limit is {self._limit}; try again later",
                reason=OVERLOADED,
                retry_after=self._retry_after,
            )
        self.in_flight += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.in_flight -= 1
