"""Plans, complexity, the template (P-01 to P-24)."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from services.planner.domain.complexity import estimate_by_keywords
from services.planner.domain.errors import InvalidPlan
from services.planner.domain.plans import (
    Action,
    ExecutionPlan,
    PlanStep,
    StepStatus,
    prepare_plan,
    replace_steps,
    validate_dependencies,
)
from services.planner.domain.template import build_template_plan


def step(step_id: int, *depends_on: int, **changes: Any) -> PlanStep:
    return PlanStep(
        **{"step_id": step_id, "action": "reasoning", "description": "d", "depends_on": depends_on, **changes}
    )


def plan(*steps: PlanStep, **changes: Any) -> ExecutionPlan:
    fields = {"original_query": "q", "complexity": 0.5, "requires_confirmation": False}
    return ExecutionPlan(**{**fields, "steps": steps, **changes})


def test_the_actions_and_the_statuses_are_those_of_the_contract() -> None:  # P-01, P-02
    assert {a.value for a in Action} == {
        "rag_search",
        "web_search",
        "reasoning",
        "ask_user",
        "code_execute",
        "run_legacy_agent",
    }
    assert {s.value for s in StepStatus} == {"pending", "running", "success", "partial", "failed", "skipped"}


@pytest.mark.parametrize(
    "changes",
    [
        {"step_id": 0},
        {"action": "sing"},
        {"description": ""},
        {"fallback": "sing"},
        {"timeout_seconds": 0},
        {"timeout_seconds": 301},
    ],
)
def test_a_malformed_step_is_refused(changes: dict[str, Any]) -> None:  # P-03
    with pytest.raises(ValidationError):
        step(**{"step_id": 1, **changes})


def test_a_step_has_the_defaults_of_the_contract() -> None:  # P-03, P-45
    made = step(1)
    assert (made.query, made.collection, made.depends_on, made.expected_output) == (None, None, (), "")
    assert (made.fallback, made.timeout_seconds) == (None, 30)
    assert step(1, timeout_seconds=None).seconds == 30


def test_a_plan_estimates_as_many_steps_as_it_has() -> None:  # P-04
    made = plan(step(1), step(2))
    assert made.estimated_steps == 2
    assert plan(step(1), estimated_steps=7).estimated_steps == 7
    assert made.created_at.utcoffset() is not None


@pytest.mark.parametrize("estimate", [None, 20])
def test_more_than_twenty_steps_are_refused(estimate: int | None) -> None:  # P-05
    assert len(plan(*(step(i) for i in range(1, 21)), estimated_steps=estimate).steps) == 20
    with pytest.raises(ValidationError, match="steps"):
        plan(*(step(i) for i in range(1, 22)), estimated_steps=estimate)


@pytest.mark.parametrize(
    "changes", [{"original_query": ""}, {"complexity": 1.1}, {"complexity": float("nan")}, {"estimated_steps": 21}]
)
def test_a_malformed_plan_is_refused(changes: dict[str, Any]) -> None:  # P-04
    with pytest.raises(ValidationError):
        plan(step(1), **changes)


def test_a_plan_needs_a_step() -> None:  # P-04
    with pytest.raises(ValidationError):
        plan()


def test_the_short_form_of_a_plan_validates() -> None:  # P-07
    short = {
        "plan_id": "0123456789ab",
        "original_query": "q",
        "complexity": 0.3,
        "requires_confirmation": False,
        "steps": [
            {
                "step_id": 1,
                "action": "rag_search",
                "description": "d",
                "query": "q",
                "collection": "c",
                "depends_on": [],
                "fallback": None,
            }
        ],
    }
    assert ExecutionPlan.model_validate(short).plan_id == "0123456789ab"


def test_wrong_dependencies_are_named() -> None:  # P-12
    wrong = plan(step(1, 2), step(2, 9), step(2, 1), step(3, 3))
    assert validate_dependencies(wrong) == [
        "Step 1: 循環依存または後方依存 2",
        "Step 2: 存在しない依存先 9",
        "Step 2: 循環依存または後方依存 9",
        "Step 3: 循環依存または後方依存 3",
        "Step 2: ステップIDが重複",
    ]
    assert validate_dependencies(plan(step(1), step(2, 1))) == []


def test_a_plan_with_wrong_numbers_never_becomes_executable() -> None:  # P-144
    with pytest.raises(InvalidPlan, match="the step id is repeated") as caught:
        prepare_plan(plan(step(1), step(1)))
    assert caught.value.violations[0].field == "plan.steps"
    assert re.fullmatch(r"[0-9a-f]{12}", prepare_plan(plan(step(1))).plan_id or "")  # P-06


def test_a_step_that_falls_back_on_itself_has_no_fallback() -> None:  # P-43
    assert step(1, fallback="reasoning").usable_fallback is None
    assert step(1, fallback="ask_user").usable_fallback is Action.ASK_USER


def test_a_plan_with_other_steps_keeps_its_id() -> None:  # P-109
    first = prepare_plan(plan(step(1)))
    changed = replace_steps(first, [step(4), step(5, 4)])
    assert (changed.plan_id, changed.estimated_steps) == (first.plan_id, 2)


KEYWORDS = "比較違い複数最新理由方法詳しくステップ手順なぜどのように"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Pythonとは何ですか", 0.30),
        ("なぜ空は青い？", 0.40),
        ("違い違い違い", 0.45),
        ("最新の手順とステップ", 0.60),
        ("AとBの違いを比較して詳しく教えて", 0.75),
        ("あ" * 100, 0.30),
        ("あ" * 101, 0.40),
        ("あ" * 200, 0.40),
        ("あ" * 201, 0.50),
        (KEYWORDS + "あ" * 201, 1.00),
    ],
)
def test_complexity_follows_the_keywords(query: str, expected: float) -> None:  # P-13
    assert estimate_by_keywords(query) == expected


def test_the_template_searches_and_answers() -> None:  # P-20
    made = build_template_plan(" 問い ", 0.3)
    search, answer = made.steps
    assert (search.action, search.collection, search.query) == (Action.RAG_SEARCH, "wikipedia_ja", " 問い ")
    assert search.fallback is Action.REASONING
    assert (answer.action, answer.depends_on, answer.query) == (Action.REASONING, (1,), " 問い ")
    assert (made.requires_confirmation, made.complexity, made.original_query) == (False, 0.3, " 問い ")
    assert re.fullmatch(r"[0-9a-f]{12}", made.plan_id or "")  # P-06


@pytest.mark.parametrize(
    ("collections", "expected"),
    [
        (None, "wikipedia_ja"),
        ([], None),
        (["a", "wikipedia_ja"], "wikipedia_ja"),
        (["a"], "a"),
        (["a", "b"], None),
    ],
)
def test_the_template_searches_where_something_is(collections: list[str] | None, expected: str | None) -> None:  # P-21
    assert build_template_plan("q", 0.3, collections).steps[0].collection == expected
