"""Work is repeated with pauses; a failed work stops neither the others nor the next round."""

from __future__ import annotations

import asyncio

import pytest

from chassis.errors import Unavailable
from chassis.repetition import repeat


class Rounds:
    """Work that fails as told, and pauses that end after the last round."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.done: list[str] = []
        self.pauses: list[float] = []

    async def first(self) -> None:
        error = self.errors.pop(0)
        if error is not None:
            raise error
        self.done.append("first")

    async def second(self) -> None:
        self.done.append("second")

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self.errors:
            raise asyncio.CancelledError


async def test_works_are_repeated_in_order_with_pauses() -> None:
    rounds = Rounds(None, None)
    with pytest.raises(asyncio.CancelledError):
        await repeat(7.0, rounds.first, rounds.second, first_pause=3.0, sleep=rounds.sleep)
    assert rounds.done == ["first", "second"] * 2
    assert rounds.pauses == [3.0, 7.0, 7.0]


async def test_a_failed_work_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds(Unavailable("the database is away"), None)
    with pytest.raises(asyncio.CancelledError):
        await repeat(7.0, rounds.first, rounds.second, sleep=rounds.sleep)
    assert rounds.done == ["second", "first", "second"]
    assert "the database is away" in caplog.text


async def test_an_unknown_error_is_logged_with_its_stack_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds(ZeroDivisionError(), None)
    with pytest.raises(asyncio.CancelledError):
        await repeat(7.0, rounds.first, rounds.second, sleep=rounds.sleep)
    assert rounds.done == ["second", "first", "second"]
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "ZeroDivisionError" in caplog.text
