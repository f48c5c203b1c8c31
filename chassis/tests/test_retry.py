from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import NotFound, Unavailable
from chassis.retry import RetryPolicy


@dataclass
class Time:
    """A clock that moves only when something sleeps."""

    now: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def passes(error: BaseException) -> bool:
    return isinstance(error, Unavailable)


async def run(policy: RetryPolicy, time: Time, *failures: Exception, rng: Callable[[], float] = lambda: 1.0) -> object:
    left = list(failures)

    async def fail_then_succeed() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return await policy.run(fail_then_succeed, passes, clock=time.clock, sleep=time.sleep, rng=rng)


async def test_ceilings_grow_by_the_factor_up_to_the_longest_pause() -> None:
    time = Time()
    policy = RetryPolicy(attempts=5, first_pause=2, factor=3, longest_pause=10)

    assert await run(policy, time, *[Unavailable("down")] * 4) == ("done", 5)
    assert time.pauses == [2, 6, 10, 10]


@given(st.floats(0, 1), st.integers(1, 6))
def test_jitter_takes_any_part_of_a_pause(share: float, count: int) -> None:
    time = Time()
    asyncio.run(run(RetryPolicy(None, longest_pause=8), time, *[Unavailable("down")] * count, rng=lambda: share))

    assert time.pauses == [share * min(8.0, 2.0**number) for number in range(count)]


async def test_the_last_error_is_raised_after_the_last_attempt() -> None:
    time = Time()
    with pytest.raises(Unavailable, match="2"):
        await run(RetryPolicy(attempts=2), time, Unavailable("1"), Unavailable("2"), Unavailable("3"))
    assert len(time.pauses) == 1


async def test_a_permanent_error_is_raised_at_once() -> None:
    time = Time()
    with pytest.raises(NotFound):
        await run(RetryPolicy(), time, NotFound("gone"))
    assert time.pauses == []


async def test_a_pause_that_would_end_after_the_total_time_is_not_made() -> None:
    time = Time()
    with pytest.raises(Unavailable):
        await run(RetryPolicy(None, total_seconds=7), time, *[Unavailable("down")] * 9)
    assert time.pauses == [1, 2]


async def test_retry_after_is_added_to_the_pause_up_to_the_longest() -> None:
    time = Time()
    policy = RetryPolicy(longest_pause=5)
    await run(policy, time, Unavailable("busy", retry_after=3), Unavailable("busy", retry_after=60), rng=lambda: 0.5)
    assert time.pauses == [3.5, 6]


def test_blocking_code_uses_the_same_policy() -> None:
    left = [Unavailable("1"), Unavailable("2")]

    def fail_then_succeed() -> str:
        if left:
            raise left.pop(0)
        return "done"

    assert RetryPolicy(attempts=3, first_pause=0).run_blocking(fail_then_succeed, passes) == "done"
    left += [Unavailable("4"), Unavailable("5")]
    with pytest.raises(Unavailable, match="5"):
        RetryPolicy(attempts=2, first_pause=0).run_blocking(fail_then_succeed, passes)
