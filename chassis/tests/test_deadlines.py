import asyncio

import pytest

from chassis import deadlines
from chassis.errors import DeadlineExceeded


def test_without_a_deadline_the_policy_limits_the_call() -> None:
    assert deadlines.get_remaining() is None
    assert deadlines.compute_budget(7.0) == 7.0
    assert deadlines.compute_budget(None) is None


def test_an_outgoing_call_gets_the_remaining_time_minus_a_reserve() -> None:
    with deadlines.time_limit(2.0, clock=lambda: 100.0):
        assert deadlines.get_remaining(clock=lambda: 100.5) == 1.5
        assert deadlines.compute_budget(30.0, clock=lambda: 100.5) == pytest.approx(1.5 * 0.95)
        assert deadlines.compute_budget(None, clock=lambda: 100.5) == pytest.approx(1.5 * 0.95)


def test_an_outgoing_call_never_gets_more_time_than_its_policy_allows() -> None:
    with deadlines.time_limit(20.0, clock=lambda: 0.0):
        assert deadlines.compute_budget(3.0, clock=lambda: 1.0) == 3.0


@pytest.mark.parametrize(("left", "reserve"), [(0.02, 0.005), (1.0, 0.05), (60.0, 0.25)])
def test_the_reserve_is_a_share_within_bounds(left: float, reserve: float) -> None:
    with deadlines.time_limit(left, clock=lambda: 0.0):
        assert deadlines.compute_budget(None, clock=lambda: 0.0) == pytest.approx(left - reserve)


@pytest.mark.parametrize("now", [0.997, 1.0, 5.0])
def test_no_call_is_made_when_nothing_is_left(now: float) -> None:
    with deadlines.time_limit(1.0, clock=lambda: 0.0), pytest.raises(DeadlineExceeded):
        deadlines.compute_budget(30.0, clock=lambda: now)


def test_a_nested_deadline_never_extends_the_outer_one() -> None:
    with deadlines.time_limit(1.0, clock=lambda: 0.0):
        with deadlines.time_limit(5.0, clock=lambda: 0.0):
            assert deadlines.get_remaining(clock=lambda: 0.0) == 1.0
        with deadlines.time_limit(0.5, clock=lambda: 0.0):
            assert deadlines.get_remaining(clock=lambda: 0.0) == 0.5
        with deadlines.time_limit(None):
            assert deadlines.get_remaining(clock=lambda: 0.0) == 1.0
    assert deadlines.get_remaining() is None


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_call_without_remaining_time_is_refused(seconds: float) -> None:
    with pytest.raises(DeadlineExceeded):
        deadlines.begin(seconds)


async def test_the_deadline_of_a_call_holds_in_its_task_and_in_the_tasks_it_starts() -> None:
    async def read_deadline_in_task() -> float | None:
        return deadlines.get_remaining(clock=lambda: 0.0)

    async def read_deadlines() -> float | None:
        deadlines.begin(3.0, clock=lambda: 0.0)
        return await asyncio.create_task(read_deadline_in_task())

    assert await asyncio.create_task(read_deadlines()) == 3.0
    assert deadlines.get_remaining() is None
