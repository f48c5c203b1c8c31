"""How many calls are taken on at once. What is too much is refused at the door, with a time to come back."""

from __future__ import annotations

from types import TracebackType

from chassis.errors import ResourceExhausted

OVERLOADED = "OVERLOADED"


class Admission:
    """A bounded number of calls in flight: ``with admission:`` around each, `ResourceExhausted` when it is full."""

    def __init__(self, what: str, limit: int, retry_after: float) -> None:
        self._what = what
        self._limit = limit
        self._retry_after = retry_after
        self.in_flight = 0

    def __enter__(self) -> None:
        if self.in_flight >= self._limit:
            raise ResourceExhausted(
                f"{self.in_flight} {self._what} are in flight, the limit is {self._limit}; try again later",
                reason=OVERLOADED,
                retry_after=self._retry_after,
            )
        self.in_flight += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.in_flight -= 1
