from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from services.reflector.domain.reflection import ReflectionResult, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.prompts.builder import ReflectorPrompts
from services.reflector.tests.runs import asks, calls, returns, run, says
from services.reflector.usecases.ports import Message, Reply
from services.reflector.usecases.reflect_with_model import InsightsReply, ReflectorAgent, VerdictReply

Answer = dict[str, Any] | Exception


class ScriptedModel:
    """Answers insight prompts and verdict prompts from two lists, and keeps what it was asked."""

    name = "scripted"

    def __init__(self, insights: Sequence[Answer] = (), verdicts: Sequence[Answer] = ()) -> None:
        self._answers: dict[type, list[Answer]] = {InsightsReply: list(insights), VerdictReply: list(verdicts)}
        self.requests: list[tuple[type, list[Message]]] = []

    async def reply(self, messages: Sequence[Message], shape: type[Reply]) -> Reply:
        self.requests.append((shape, list(messages)))
        answer = self._answers[shape].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return shape.model_validate(answer)

    def prompts(self, shape: type) -> list[str]:
        """Return the last message of each call for `shape`."""
        return [messages[-1][1] for requested_shape, messages in self.requests if requested_shape is shape]


def make_lesson(key: str, **fields: Any) -> dict[str, Any]:
    five = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
    return {**{name: f"{name} of {key}" for name in five}, "key_insight": key, **fields}


def lessons(*keys: str, **fields: Any) -> dict[str, Any]:
    return {"insights": [make_lesson(key, **fields) for key in keys]}


def verdict(tag: str = "helpful", **fields: Any) -> dict[str, Any]:
    return {"bullet_id": "a", "tag": tag, "reason": "because", **fields}


async def reflect(model: ScriptedModel, trajectory: Trajectory | None = None, **fields: Any) -> ReflectionResult:
    prompts = ReflectorPrompts(None, "ja", 60_000)
    request = ReflectionRequest(trajectory or run(reasoning_steps=("look", "decide")), "test", **fields)
    return await ReflectorAgent(model, prompts, 60_000).run(request)


def bullet(bullet_id: str) -> UsedBullet:
    return UsedBullet(id=bullet_id, section="s", content=f"content of {bullet_id}")


FAIL = RuntimeError("model is down")
VECTORS: list[tuple[list[bool], int, str | None]] = [
    ([True, True, True], 3, "third"),
    ([True, False, True], 2, "third"),
    ([True, True, False], 2, "second"),
    ([False, False, False], 0, None),
    ([False, True, False], 1, "second"),
]


@pytest.mark.parametrize("failure", [FAIL, make_lesson("no list"), {"insights": [{"key_insight": "only one field"}]}])
@pytest.mark.parametrize(("calls_ok", "count", "source"), VECTORS)
async def test_completed_iterations_are_counted_and_the_last_one_teaches(
    calls_ok: list[bool], count: int, source: str | None, failure: Answer
) -> None:
    replies = [lessons(key) if ok else failure for ok, key in zip(calls_ok, ("first", "second", "third"), strict=True)]
    model = ScriptedModel(replies)
    result = await reflect(model, max_iterations=3)
    assert len(model.requests) == 3
    assert result.iteration_count == count
    assert [insight.key_insight for insight in result.insights] == ([source] if source else [])


async def test_an_empty_list_completes_an_iteration() -> None:
    result = await reflect(ScriptedModel([lessons("first"), lessons()]), max_iterations=2)
    assert (result.iteration_count, result.insights) == (2, ())


async def test_one_invalid_insight_makes_the_reply_unusable() -> None:
    result = await reflect(ScriptedModel([{"insights": [make_lesson("good"), {"key_insight": 7}]}]))
    assert (result.iteration_count, result.insights) == (0, ())


async def test_the_insights_of_the_last_completed_iteration_are_fed_back() -> None:
    model = ScriptedModel([lessons("one", "two"), FAIL, lessons("three")])
    await reflect(model, max_iterations=3)
    first, second, third = model.prompts(InsightsReply)
    assert "- one" not in first
    assert "- one\n- two" in second
    assert "- one\n- two" in third


async def test_each_resolved_bullet_is_judged_by_its_own_call_in_order() -> None:
    model = ScriptedModel([FAIL], [verdict("harmful", bullet_id="b"), verdict("helpful", bullet_id="zzz")])
    trajectory = run(used_bullet_ids=("b", "nope", "a", "b"))
    result = await reflect(model, trajectory, bullets=(bullet("a"), bullet("b")))
    votes = [(vote.bullet_id, vote.tag) for vote in result.bullet_evaluations]
    assert votes == [("b", "harmful"), ("a", "helpful")]
    assert "content of b" in model.prompts(VerdictReply)[0]
    assert "content of a" in model.prompts(VerdictReply)[1]
    assert [shape for shape, _ in model.requests] == [InsightsReply, VerdictReply, VerdictReply]


@pytest.mark.parametrize("failure", [FAIL, verdict("great"), {"reason": "no tag"}])
async def test_a_failed_evaluation_is_neutral_with_a_reason(failure: Answer) -> None:
    model = ScriptedModel([lessons("x")], [failure, verdict()])
    result = await reflect(model, run(used_bullet_ids=("a", "b")), bullets=(bullet("a"), bullet("b")))
    first, second = result.bullet_evaluations
    assert first.tag == "neutral"
    assert first.reason.startswith("Evaluation failed: ")
    assert second.tag == "helpful"
    if failure is FAIL:
        assert first.reason == "Evaluation failed: model is down"


async def test_without_resolved_bullets_nothing_is_judged() -> None:
    model = ScriptedModel([lessons("x")])
    result = await reflect(model, run(used_bullet_ids=("nope",)), bullets=(bullet("a"),))
    assert (len(model.requests), result.bullet_evaluations) == (1, ())


async def test_query_and_dataset_are_those_of_the_trajectory() -> None:
    result = await reflect(ScriptedModel([lessons("x")]), run(query="why {x}?", dataset="other"))
    assert (result.trajectory_query, result.trajectory_dataset) == ("why {x}?", "other")
    assert result.model == "scripted"


async def test_any_other_failure_gives_an_empty_result(caplog: pytest.LogCaptureFixture) -> None:
    prompts = ReflectorPrompts(None, "ja", 1_000)
    faulty = ReflectorAgent(ScriptedModel(), prompts, "not a number")  # type: ignore[arg-type]
    result = await faulty.run(ReflectionRequest(run(query="q"), "test"))
    assert (result.insights, result.bullet_evaluations, result.iteration_count) == ((), (), 0)
    assert (result.trajectory_query, result.trajectory_dataset) == ("q", "test")
    assert "reflection failed" in caplog.text


LOG = run(asks("book"), calls("book", {}), returns("Error: gift card balance is not enough"), says("done"))


async def test_a_step_that_does_not_exist_is_rejected_and_asked_again() -> None:
    model = ScriptedModel([lessons("x", steps=[2, 9]), lessons("x", steps=[2])])
    result = await reflect(model, LOG)
    assert result.insights[0].steps == (2,)
    assert result.iteration_count == 1
    _, messages = model.requests[1]
    assert [speaker for speaker, _ in messages] == ["human", "ai", "human"]
    assert "存在しないステップ番号がある: 9。番号は0から3まで" in messages[-1][1]


async def test_a_model_that_insists_on_missing_steps_fails_the_iteration() -> None:
    model = ScriptedModel([lessons("x", steps=[4]), lessons("x", steps=[-1]), lessons("y", steps=[0, 0])])
    result = await reflect(model, LOG, max_iterations=2)
    assert result.iteration_count == 1
    assert [(insight.key_insight, insight.steps) for insight in result.insights] == [("y", (0,))]


async def test_steps_of_reasoning_count_from_one_in_prompts_and_from_zero_in_results() -> None:
    model = ScriptedModel([lessons("x", steps=[0]), lessons("x", steps=[1, 2])])
    assert (await reflect(model)).insights[0].steps == (0, 1)
    assert "番号は1から2まで" in model.prompts(InsightsReply)[1]


@pytest.mark.parametrize("fields", [{}, {"steps": []}, {"steps": None}])
async def test_a_lesson_without_steps_gets_the_matching_step(fields: dict[str, Any]) -> None:
    replies = lessons("x", **fields, error_identification="The gift card balance was not enough.")
    model = ScriptedModel([replies])
    assert (await reflect(model, LOG)).insights[0].steps == (2,)
    assert len(model.requests) == 1


async def test_a_lesson_without_a_matching_step_gets_the_last_step() -> None:
    assert (await reflect(ScriptedModel([lessons("x")]), LOG)).insights[0].steps == (3,)
    assert (await reflect(ScriptedModel([lessons("x")]), run())).insights[0].steps == ()


async def test_a_failed_trajectory_is_attributed_and_its_signal_reported() -> None:
    result = await reflect(ScriptedModel([lessons("x")]), LOG, test_report="不正解（正解: x）")
    assert result.attribution is not None
    assert result.attribution.step == 1
    assert (result.signal, result.is_success) == ("test_report", False)


@pytest.mark.parametrize(
    "broken",
    [
        {"insights": [make_lesson("x" * 20_001)]},
        {"insights": [make_lesson("x")] * 201},
        {"insights": [make_lesson("x", steps=[0] * 1_001)]},
    ],
)
def test_replies_are_bounded(broken: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        InsightsReply.model_validate(broken)


async def test_a_reflection_changes_no_bullet() -> None:
    bullets = (bullet("a"),)
    before = [item.model_dump() for item in bullets]
    await reflect(ScriptedModel([lessons("x")], [verdict("harmful")]), run(used_bullet_ids=("a",)), bullets=bullets)
    assert [item.model_dump() for item in bullets] == before
