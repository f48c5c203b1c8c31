from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.retry import RetryPolicy
from libs.llm.attempts import Attempts, CallPolicy
from libs.llm.errors import (
    ModelDeadlineExceeded,
    ModelRateLimited,
    ModelRefusedCall,
    ModelReplyMalformed,
    ModelUnavailable,
)


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


def failure_of(error: Exception) -> ModelUnavailable:
    return error if isinstance(error, ModelUnavailable) else ModelReplyMalformed(f"translated: {error}")


def attempts_with(
    time: Time,
    *,
    policy: CallPolicy | None = None,
    remaining: float | None = None,
    concurrency: int = 8,
    rng: Callable[[], float] = lambda: 1.0,
) -> Attempts:
    return Attempts(
        "m",
        policy or CallPolicy(),
        failure_of,
        concurrency=concurrency,
        remaining=lambda: remaining,
        clock=time.clock,
        sleep=time.sleep,
        rng=rng,
    )


class ScriptedCall:
    """A call whose outcomes are listed."""

    def __init__(self, *outcomes: str | Exception) -> None:
        self.outcomes = list(outcomes)

    async def __call__(self) -> str:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_a_call_that_works_is_made_once() -> None:
    time = Time()
    assert await attempts_with(time).run(ScriptedCall("a")) == ("a", 1)
    assert time.pauses == []


async def test_pauses_double_up_to_the_longest() -> None:
    time = Time()
    policy = CallPolicy(RetryPolicy(attempts=5, first_pause=2.0, longest_pause=10.0))
    failures = [ModelUnavailable("down") for _ in range(4)]
    assert await attempts_with(time, policy=policy).run(ScriptedCall(*failures, "a")) == ("a", 5)
    assert time.pauses == [2.0, 4.0, 8.0, 10.0]


@given(st.floats(0, 1), st.integers(1, 5))
def test_jitter_takes_any_part_of_a_pause(share: float, count: int) -> None:
    time = Time()
    calls = attempts_with(time, policy=CallPolicy(RetryPolicy(attempts=6, longest_pause=8)), rng=lambda: share)
    asyncio.run(calls.run(ScriptedCall(*[ModelUnavailable("down") for _ in range(count)], "a")))
    assert time.pauses == [share * min(8.0, 2.0**number) for number in range(count)]


async def test_the_last_failure_is_raised_after_the_last_retry() -> None:
    time = Time()
    script = ScriptedCall(ModelUnavailable("1"), ModelUnavailable("2"), ModelUnavailable("3"), "never")
    with pytest.raises(ModelUnavailable, match="3"):
        await attempts_with(time, policy=CallPolicy(RetryPolicy(attempts=3))).run(script)
    assert script.outcomes == ["never"]


async def test_retry_after_is_waited_for() -> None:
    time = Time()
    calls = attempts_with(time, rng=lambda: 0.5)
    assert await calls.run(ScriptedCall(ModelRateLimited("429", retry_after=7), "a")) == ("a", 2)
    assert time.pauses == [7.5]


async def test_a_retry_after_beyond_the_longest_pause_is_returned() -> None:
    time = Time()
    with pytest.raises(ModelRateLimited) as caught:
        await attempts_with(time).run(ScriptedCall(ModelRateLimited("429", retry_after=31)))
    assert (caught.value.retry_after, time.pauses) == (31, [])


async def test_no_pause_ends_after_the_deadline_of_the_caller() -> None:
    time = Time()
    with pytest.raises(ModelUnavailable, match="second"):
        await attempts_with(time, remaining=2.5).run(
            ScriptedCall(ModelUnavailable("first"), ModelUnavailable("second"))
        )
    assert time.pauses == [1.0]


@pytest.mark.parametrize(("policy", "remaining"), [(5, 9), (9, 5), (5, None)])
async def test_the_nearest_deadline_counts(policy: float, remaining: float | None) -> None:
    time = Time()
    retry = RetryPolicy(10, first_pause=4)
    calls = attempts_with(time, policy=CallPolicy(retry, call_seconds=policy), remaining=remaining)
    with pytest.raises(ModelUnavailable, match="down"):
        await calls.run(ScriptedCall(*[ModelUnavailable("down") for _ in range(9)]))
    assert time.pauses == [4.0]


async def test_permanent_failures_are_not_retried() -> None:
    script = ScriptedCall(ModelRefusedCall("401"), "never")
    with pytest.raises(ModelRefusedCall):
        await attempts_with(Time()).run(script)
    assert script.outcomes == ["never"]


async def test_other_exceptions_are_translated_and_their_text_does_not_follow() -> None:
    with pytest.raises(ModelReplyMalformed, match="translated: odd") as caught:
        await attempts_with(Time(), policy=CallPolicy(RetryPolicy(attempts=1))).run(ScriptedCall(LookupError("odd")))
    assert caught.value.__suppress_context__


async def test_no_time_left_is_a_deadline_exceeded() -> None:
    with pytest.raises(ModelDeadlineExceeded, match="model m: the deadline leaves no time"):
        await attempts_with(Time(), remaining=0.0).run(asyncio.Event().wait)


async def test_an_attempt_that_hangs_is_given_up_and_made_again() -> None:
    calls: list[Callable[[], Awaitable[object]]] = [asyncio.Event().wait, ScriptedCall("a")]
    impatient = attempts_with(Time(), policy=CallPolicy(attempt_seconds=0.0))
    assert await impatient.run(lambda: calls.pop(0)()) == ("a", 2)


async def test_a_model_that_always_hangs_is_unavailable() -> None:
    impatient = attempts_with(Time(), policy=CallPolicy(attempt_seconds=0.0))
    with pytest.raises(ModelUnavailable, match="model m did not answer within 0 s"):
        await impatient.run(asyncio.Event().wait)


async def test_a_timeout_of_the_call_itself_is_a_failure_of_the_provider() -> None:
    with pytest.raises(ModelReplyMalformed, match="translated: theirs"):
        await attempts_with(Time(), policy=CallPolicy(RetryPolicy(attempts=1))).run(
            ScriptedCall(TimeoutError("theirs"))
        )


async def test_a_cancelled_caller_stops_everything() -> None:
    calls = attempts_with(Time(), concurrency=1)
    running = asyncio.create_task(calls.run(asyncio.Event().wait))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await calls.run(ScriptedCall("a")) == ("a", 1)


async def test_parallel_calls_are_limited() -> None:
    running, most, go = 0, 0, asyncio.Event()

    async def count_concurrent_calls() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    calls = attempts_with(Time(), concurrency=3)
    tasks = [asyncio.create_task(calls.run(count_concurrent_calls)) for _ in range(10)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert running == 3
    go.set()
    await asyncio.gather(*tasks)
    assert most == 3


async def test_a_pausing_call_leaves_its_slot_to_others() -> None:
    time = Time()
    pausing, wake = asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        pausing.set()
        await wake.wait()

    time.sleep = sleep  # type: ignore[method-assign]
    calls = attempts_with(time, concurrency=1)
    slow = asyncio.create_task(calls.run(ScriptedCall(ModelUnavailable("down"), "slow")))
    await pausing.wait()
    assert await calls.run(ScriptedCall("quick")) == ("quick", 1)
    wake.set()
    assert await slow == ("slow", 2)
