from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chassis.errors import Unavailable
from chassis.targets.target import Target
from libs.llm.errors import PromptTooLong
from libs.prompts.language import Language
from services.reflector.domain.reflection import ReflectionResult, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.prompts.builder import Message, ReflectorPrompts
from services.reflector.prompts.texts import PROMPT_TEXTS
from services.reflector.tests.trajectories import asks, build_trajectory, calls, returns, says
from services.reflector.usecases.model_replies import InsightsReply, ReflectionReply, VerdictReply
from services.reflector.usecases.ports import Reply
from services.reflector.usecases.reflect_with_model import ReflectorAgent

Answer = dict[str, Any] | Exception


class ScriptedModel:
    """Answers prompts for lessons and for verdicts from two lists, and records the prompts."""

    name = "scripted"

    def __init__(self, replies: Sequence[Answer] = (), verdicts: Sequence[Answer] = (), problem: str = "") -> None:
        self._replies, self._verdicts, self._problem = list(replies), list(verdicts), problem
        self.requests: list[tuple[type, list[Message]]] = []

    async def find_context_tokens(self) -> int | None:
        return None

    async def reply(
        self,
        messages: Sequence[Message],
        shape: type[Reply],
        report_problem: Callable[[str], None] = lambda problem: None,
    ) -> Reply:
        self.requests.append((shape, list(messages)))
        answer = (self._verdicts if shape is VerdictReply else self._replies).pop(0)
        if self._problem:
            report_problem(self._problem)
        if isinstance(answer, Exception):
            raise answer
        return shape.model_validate(answer)

    def prompts(self, shape: type = ReflectionReply) -> list[str]:
        """Return the last message of each call for `shape`."""
        return [messages[-1][1] for requested_shape, messages in self.requests if requested_shape is shape]


def make_lesson(key: str, **fields: Any) -> dict[str, Any]:
    four = ("what_happened", "cause", "better")
    return {**{name: f"{name} of {key}" for name in four}, "lesson": key, **fields}


def lessons(*keys: str, **fields: Any) -> dict[str, Any]:
    return {"analysis": "so it was", "lessons": [make_lesson(key, **fields) for key in keys]}


def insights(*keys: str) -> dict[str, Any]:
    """Return the reply to a template of a user."""
    five = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
    return {"insights": [dict.fromkeys(five, key) for key in keys]}


def verdict(tag: str = "helpful", **fields: Any) -> dict[str, Any]:
    return {"bullet_id": "a", "tag": tag, "reason": "because", **fields}


async def reflect(
    model: ScriptedModel, trajectory: Trajectory | None = None, *, folder: Path | None = None, **fields: Any
) -> ReflectionResult:
    request = ReflectionRequest(trajectory or build_trajectory(reasoning_steps=("look", "decide")), "test", **fields)
    return await ReflectorAgent(model, ReflectorPrompts(folder, "ja"), 60_000).run(request)


def bullet(bullet_id: str) -> UsedBullet:
    return UsedBullet(id=bullet_id, section="s", content=f"content of {bullet_id}")


FAIL = RuntimeError("model is down")
VECTORS: list[tuple[list[bool], int, str | None]] = [
    ([True, True, True], 3, "third"),
    ([True, False, True], 2, "third"),
    ([True, True, False], 2, "second"),
    ([False, True, False], 1, "second"),
]


@pytest.mark.parametrize("failure", [FAIL, make_lesson("no list"), {"lessons": [{"lesson": "only one field"}]}])
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
    assert bool(result.error) == (count < 3)


async def test_an_empty_list_completes_an_iteration() -> None:
    result = await reflect(ScriptedModel([lessons("first"), lessons()]), max_iterations=2)
    assert (result.iteration_count, result.insights, result.model) == (2, (), "scripted")


LOG = build_trajectory(asks("book"), calls("book", {}), returns("Error: gift card balance is not enough"), says("done"))


@pytest.mark.parametrize("failure", [FAIL, {"lessons": [make_lesson("good"), {"lesson": 7}]}, Unavailable("HTTP 503")])
async def test_a_model_that_fails_for_good_gives_way_to_the_rules(failure: Answer) -> None:
    model = ScriptedModel([failure, failure])
    result = await reflect(model, LOG, max_iterations=2, ground_truth="x")
    assert (result.model, result.iteration_count) == ("offline", 1)
    assert any("gift card balance" in insight.key_insight for insight in result.insights)
    reason = "HTTP 503" if isinstance(failure, Unavailable) else type(failure).__name__
    expected = reason if isinstance(failure, Exception) else "ValidationError"
    assert result.error == f"the model scripted failed, and the rules reflected instead: {expected}"


async def test_the_lessons_of_the_last_completed_iteration_are_fed_back() -> None:
    model = ScriptedModel([lessons("one", "two"), FAIL, lessons("three")])
    await reflect(model, max_iterations=3)
    first, second, third = model.prompts()
    assert "1. one" not in first
    assert "1. one\n2. two" in second
    assert "1. one\n2. two" in third
    assert "まだ正しいものを残し" in second


async def test_votes_are_the_tags_of_the_reply() -> None:
    tags = [
        {"bullet_id": "[a]", "tag": "helpful", "why": "it was followed"},
        {"bullet_id": "zzz", "tag": "harmful", "why": "unknown"},
        {"bullet_id": "c", "tag": "harmful", "why": "it misled"},
    ]
    model = ScriptedModel([{**lessons("x"), "tags": tags}])
    trajectory = build_trajectory(says("By [a] and [b]."), used_bullet_ids=("a", "b", "c", "d", "nope"))
    result = await reflect(model, trajectory, bullets=tuple(map(bullet, "abcd")))
    votes = [(vote.bullet_id, vote.tag) for vote in result.bullet_evaluations]
    assert votes == [("a", "helpful"), ("b", "neutral"), ("c", "harmful")]
    [prompt] = model.prompts()
    assert re.search(r"<cited-\w+>\n\[a\] \[b\]\n", prompt)
    assert re.search(r"<served-\w+>\n\[c\] \[d\]\n", prompt)
    assert "[d] content of d (helpful 0, harmful 0)" in prompt


@pytest.mark.parametrize("failure", [FAIL, verdict("great"), {"reason": "no tag"}])
async def test_with_a_template_of_the_user_each_used_bullet_has_its_own_call(failure: Answer, tmp_path: Path) -> None:
    (tmp_path / "default.txt").write_text("{outcome}|{error_message}|{tools}|{served}", encoding="utf-8")
    model = ScriptedModel([insights("x")], [failure, verdict("harmful", bullet_id="zzz")])
    trajectory = build_trajectory(used_bullet_ids=("b", "nope", "a", "b"), error_message="it broke")
    result = await reflect(model, trajectory, bullets=(bullet("a"), bullet("b")), folder=tmp_path)
    assert model.prompts(InsightsReply) == [
        "失敗。根拠: エージェント自身の言葉だけ|it broke|(ツールの呼び出しはない)|[b] [a]"
    ]
    first, second = result.bullet_evaluations
    assert (first.bullet_id, first.tag) == ("b", "neutral")
    assert first.reason.startswith("Evaluation failed: ")
    assert (second.bullet_id, second.tag) == ("a", "harmful")
    assert "content of b" in model.prompts(VerdictReply)[0]
    assert [insight.key_insight for insight in result.insights] == ["x"]


async def test_a_template_for_votes_alone_replaces_the_tags(tmp_path: Path) -> None:
    (tmp_path / "bullet_evaluation.txt").write_text("{bullet_id}", encoding="utf-8")
    model = ScriptedModel([lessons("x")], [verdict()])
    result = await reflect(model, build_trajectory(used_bullet_ids=("a",)), bullets=(bullet("a"),), folder=tmp_path)
    assert model.prompts(VerdictReply) == ["a"]
    assert [vote.tag for vote in result.bullet_evaluations] == ["helpful"]


async def test_query_and_dataset_are_those_of_the_trajectory() -> None:
    result = await reflect(ScriptedModel([lessons("x")]), build_trajectory(query="why {x}?", dataset="other"))
    assert (result.trajectory_query, result.trajectory_dataset) == ("why {x}?", "other")
    assert result.model == "scripted"


async def test_any_other_failure_gives_way_to_the_rules(caplog: pytest.LogCaptureFixture) -> None:
    faulty = ReflectorAgent(ScriptedModel([lessons()]), None, 1_000)  # type: ignore[arg-type]
    result = await faulty.run(ReflectionRequest(build_trajectory(query="q"), "test"))
    assert (result.model, result.trajectory_query) == ("offline", "q")
    assert "iteration failed" in caplog.text


async def test_a_step_that_does_not_exist_is_rejected_once_and_then_dropped() -> None:
    model = ScriptedModel([lessons("x", evidence_steps=[2, 9]), lessons("x", evidence_steps=[2, 8])])
    result = await reflect(model, LOG)
    assert result.insights[0].steps == (2,)
    assert result.iteration_count == 1
    _, messages = model.requests[1]
    assert [speaker for speaker, _ in messages] == ["system", "human", "ai", "human"]
    assert "存在しないステップ番号がある: 9。番号は0から3まで" in messages[-1][1]


async def test_steps_of_reasoning_count_from_one_in_prompts_and_from_zero_in_results() -> None:
    model = ScriptedModel([lessons("x", evidence_steps=[0]), lessons("x", evidence_steps=[1, 2])])
    assert (await reflect(model)).insights[0].steps == (0, 1)
    assert '<step n="1" role="assistant">look</step>' in model.prompts()[0]
    assert "番号は1から2まで" in model.prompts()[1]


@pytest.mark.parametrize("fields", [{}, {"evidence_steps": []}, {"evidence_steps": None}])
async def test_a_lesson_without_steps_gets_the_step_it_speaks_of(fields: dict[str, Any]) -> None:
    replies = lessons("x", **fields, what_happened="The gift card balance was not enough.")
    model = ScriptedModel([replies])
    assert (await reflect(model, LOG)).insights[0].steps == (2,)
    assert len(model.requests) == 1


async def test_a_lesson_without_a_matching_step_gets_the_last_step() -> None:
    assert (await reflect(ScriptedModel([lessons("x")]), LOG)).insights[0].steps == (3,)
    assert (await reflect(ScriptedModel([lessons("x")]), build_trajectory())).insights[0].steps == ()


async def test_kind_and_relations_of_a_lesson_are_kept_if_the_bullet_was_shown() -> None:
    fields = {"kind": "tool_fact", "confirms": "[a]", "contradicts": "unknown"}
    result = await reflect(ScriptedModel([lessons("x", **fields)]), LOG, bullets=(bullet("a"),))
    [insight] = result.insights
    assert (insight.kind, insight.confirms, insight.contradicts) == ("tool_fact", "a", "")
    assert (insight.reasoning, insight.root_cause_analysis) == ("so it was", "cause of x")


async def test_a_target_that_does_not_compile_is_left_out_and_named_and_its_lesson_is_kept() -> None:
    condition = 'call.tool == "export_report" && !succeeded("close_period")'
    replies = [make_lesson("x", target=f" {condition} "), make_lesson("y", target="call.tool ="), make_lesson("z")]
    result = await reflect(ScriptedModel([{"analysis": "a", "lessons": replies}]), LOG)
    assert [(insight.key_insight, insight.target) for insight in result.insights] == [
        ("x", condition),
        ("y", ""),
        ("z", ""),
    ]
    assert result.error.startswith("the target of a lesson was left out: target.expression 'call.tool ='")


@pytest.mark.parametrize("language", ["ja", "en"])
def test_the_example_of_a_target_in_the_prompt_compiles(language: Language) -> None:
    text = PROMPT_TEXTS[language].system
    [example] = re.findall(r'call\.tool == "export_report".*\)(?=\.$)', text, re.MULTILINE)
    assert Target(example).tools == frozenset({"export_report"})
    for name in set(re.findall(r"([a-z_]+)\(", text.partition("CEL")[2].partition(example)[0])) - {"has"}:
        argument = "" if name in ("repeats", "failures", "user_confirmed") else "'x'"
        Target(f"{name}({argument}) == 1")


async def test_decisive_steps_are_the_candidates_for_the_blame() -> None:
    steps = [
        {"step": 2, "agent": "environment", "why": "it refused"},
        {"step": 0, "agent": "nobody", "why": "unclear"},
        {"step": 2, "agent": "agent", "why": "named twice"},
        {"step": 1, "agent": "agent", "why": "it did not check"},
    ]
    result = await reflect(
        ScriptedModel([{**lessons("x"), "decisive_steps": steps}]), LOG, test_report="不正解（正解: x）"
    )
    assert result.attribution is not None
    named = [result.attribution, *result.attribution.alternatives]
    assert [(item.step, item.agent) for item in named] == [(2, "environment"), (0, "user"), (1, "agent")]
    assert (result.signal, result.is_success) == ("test_report", False)


async def test_a_failed_run_without_a_decisive_step_blames_nobody_and_a_success_never() -> None:
    assert (await reflect(ScriptedModel([lessons("x")]), LOG)).attribution is None
    steps = {"decisive_steps": [{"step": 1, "agent": "agent", "why": "w"}]}
    won = LOG.model_copy(update={"reward": 1.0})
    assert (await reflect(ScriptedModel([{**lessons("x"), **steps}]), won)).attribution is None


async def test_an_incomplete_reply_is_used_and_named() -> None:
    result = await reflect(ScriptedModel([lessons("x")], problem="the reply was cut"), LOG)
    assert [insight.key_insight for insight in result.insights] == ["x"]
    assert result.error == "the reply was cut"


async def test_a_prompt_beyond_the_context_is_reduced() -> None:
    log = build_trajectory(*(says(f"thought {number} " + "word " * 200) for number in range(60)))
    model = ScriptedModel([PromptTooLong("too long", 4_000), lessons("x")])
    assert (await reflect(model, log)).iteration_count == 1
    long, short = model.prompts()
    assert len(short) < 8_000 < len(long)


@pytest.mark.parametrize(
    "broken",
    [
        {"lessons": [make_lesson("x" * 20_001)]},
        {"lessons": [make_lesson("x")] * 201},
        {"lessons": [make_lesson("x", evidence_steps=[0] * 1_001)]},
    ],
)
def test_replies_are_bounded(broken: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReflectionReply.model_validate(broken)


async def test_bullets_are_not_changed() -> None:
    bullets = (bullet("a"),)
    before = [item.model_dump() for item in bullets]
    await reflect(ScriptedModel([lessons("x")]), build_trajectory(used_bullet_ids=("a",)), bullets=bullets)
    assert [item.model_dump() for item in bullets] == before
