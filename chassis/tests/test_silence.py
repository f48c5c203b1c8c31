"""A holder is gone when its mark has not changed for a lease, whatever it says."""

from __future__ import annotations

from chassis.silence import Silence


class Clock:
    """A monotonic clock that moves when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_mark_that_changes_is_alive_however_it_changes() -> None:
    clock = Clock()
    silence = Silence[str](10, clock)
    for mark in (1_000_000, 0, 5, -1, 10**12):
        assert silence.of({"one": mark}) == []
        clock.seconds += 9


def test_a_mark_that_stays_is_silent_after_a_lease_and_no_earlier() -> None:
    clock = Clock()
    silence = Silence[str](10, clock)
    assert silence.of({"one": 1, "two": 1}) == []
    clock.seconds = 9.5
    assert silence.of({"one": 1, "two": 2}) == []
    clock.seconds = 10.0
    assert silence.of({"one": 1, "two": 2}) == ["one"]
    clock.seconds = 19.5
    assert silence.of({"one": 1, "two": 2}) == ["one", "two"]


def test_who_was_away_meanwhile_begins_anew() -> None:
    clock = Clock()
    silence = Silence[str](10, clock)
    assert silence.of({"one": 1}) == []
    clock.seconds = 5
    assert silence.of({}) == []
    clock.seconds = 12
    assert silence.of({"one": 1}) == []
