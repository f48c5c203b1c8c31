"""Plans are replaced by trigger and strategy (P-92 to P-109)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.planner.domain.errors import InvalidPlan
from services.planner.domain.plans import ExecutionPlan, validate_dependencies
from services.planner.domain.replanning import (
    ReplanContext,
    ReplanManager,
    ReplanStrategy,
    ReplanTrigger,
    apply_fallback,
    build_replan_result,
    join_plans,
    remove_step,
    repeats_plan,
    select_kept_steps,
)
from services.planner.domain.results import StepResult
from services.planner.prompts.planning import build_replan_hints
from services.planner.tests.parts import agent_plan, agent_step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Trigger, Strategy = ReplanTrigger, ReplanStrategy


def result(status: str = "success", confidence: float = 0.9) -> StepResult:
    return StepResult(step_id=1, status=status, confidence=confidence)


def line(count: int, **changes: Any) -> ExecutionPlan:
    return agent_plan(*(agent_step(i, *([i - 1] if i > 1 else []), **changes) for i in range(1, count + 1)))


def context(trigger: ReplanTrigger, step_id: int | None = None, **changes: Any) -> ReplanContext:
    return ReplanContext(trigger=trigger, original_query="q", failed_step_id=step_id, **changes)


@pytest.mark.parametrize(
    ("given_result", "count", "timed_out", "expected"),
    [
        (result("failed", 0), 0, False, Trigger.STEP_FAILED),
        (result("failed", 0), 0, True, Trigger.TIMEOUT),
        (result("failed", 0), 3, False, None),
        (result(confidence=0.39), 2, False, Trigger.LOW_CONFIDENCE),
        (result(confidence=0.4), 0, False, None),
    ],
)
def test_failed_steps_and_timeouts_trigger_a_replan(
    given_result: StepResult, count: int, timed_out: bool, expected: ReplanTrigger | None
) -> None:  # P-93
    assert ReplanManager().should_replan(given_result, count, timed_out=timed_out) is expected


@pytest.mark.parametrize(
    ("failed", "steps", "expected"),
    [
        (1, 3, Strategy.FULL),
        (2, 6, Strategy.FULL),
        (1, 4, Strategy.FULL),
        (1, 2, Strategy.PARTIAL),
        (2, 5, Strategy.PARTIAL),
        (2, 4, Strategy.PARTIAL),
        (1, 1, Strategy.PARTIAL),
    ],
)
def test_the_position_of_the_failure_decides(failed: int, steps: int, expected: ReplanStrategy) -> None:  # P-96, P-97
    plan = line(steps)
    moved = plan.model_copy(
        update={"steps": tuple(s.model_copy(update={"step_id": s.step_id + 40}) for s in plan.steps)}
    )
    found = ReplanManager().choose_strategy(context(Trigger.STEP_FAILED, failed + 40, fallback_tried=True), moved)
    assert found is expected  # the place counts, not the id


def test_the_first_matching_strategy_wins() -> None:  # P-96, P-98
    manager, plan = ReplanManager(), line(3, fallback="reasoning")
    failed = context(Trigger.STEP_FAILED, 3)
    assert manager.choose_strategy(failed.model_copy(update={"replan_count": 3}), plan) is Strategy.ABORT
    assert manager.choose_strategy(failed, plan) is Strategy.FALLBACK
    assert manager.choose_strategy(failed.model_copy(update={"fallback_tried": True}), plan) is Strategy.PARTIAL
    assert manager.choose_strategy(context(Trigger.TIMEOUT, 3), plan) is Strategy.FULL
    plan_change = context(Trigger.USER_FEEDBACK, 1, user_feedback="最初からお願い")
    assert manager.choose_strategy(plan_change, plan) is Strategy.FULL
    assert manager.choose_strategy(plan_change.model_copy(update={"user_feedback": "変更"}), plan) is Strategy.PARTIAL


def test_the_cooldown_delays_only_optional_replans() -> None:  # P-95
    manager, soon, late = ReplanManager(), NOW + timedelta(seconds=4.9), NOW + timedelta(seconds=5)
    waits = {t for t in Trigger if manager.is_cooling_down(t, NOW, soon)}
    assert waits == {Trigger.LOW_CONFIDENCE, Trigger.NEW_INFORMATION}
    assert not any(manager.is_cooling_down(t, NOW, late) or manager.is_cooling_down(t, None, NOW) for t in Trigger)


def test_results_have_their_reasons() -> None:  # P-100
    replan_context = context(Trigger.STEP_FAILED, 1, replan_count=1)
    done = build_replan_result(Strategy.FULL, replan_context, line(1))
    assert (done.success, done.reason, done.replan_count) == (True, "全体再計画", 2)
    assert build_replan_result(Strategy.PARTIAL, replan_context, line(1)).reason == "部分再計画"
    assert build_replan_result(Strategy.FALLBACK, replan_context, line(1)).reason == "代替アクション適用"
    assert build_replan_result(Strategy.SKIP, replan_context, line(1)).reason == "失敗ステップスキップ"
    assert (
        build_replan_result(Strategy.ABORT, replan_context).reason,
        build_replan_result(Strategy.ABORT, replan_context).replan_count,
    ) == (
        "最大リプラン回数超過により中断",
        1,
    )
    assert (
        build_replan_result(Strategy.FULL, replan_context, error="x").reason,
        build_replan_result(Strategy.FULL, replan_context, error="x").replan_count,
    ) == (
        "リプラン失敗: x",
        1,
    )


def test_new_steps_follow_the_kept_ones_under_new_ids() -> None:  # P-102 to P-104, P-109
    plan = line(4)
    kept_steps = select_kept_steps(plan, [1, 2], dropped=3)
    new = agent_plan(agent_step(1), agent_step(2), agent_step(3, 1, action="reasoning"))
    merged = join_plans(plan, kept_steps, new, highest_id=9)
    assert [(s.step_id, s.depends_on) for s in merged.steps] == [
        (1, ()),
        (2, (1,)),
        (10, (2,)),
        (11, (10,)),
        (12, (1, 2, 10, 11)),
    ]
    assert (merged.plan_id, merged.requires_confirmation) == (plan.plan_id, True)


def test_a_full_replan_drops_the_old_steps() -> None:  # P-105, P-133
    merged = join_plans(line(3), [], line(2), highest_id=3)
    assert [(s.step_id, s.depends_on) for s in merged.steps] == [(4, ()), (5, (4,))]


def test_a_replan_without_step_ids_left_is_refused() -> None:  # P-103
    with pytest.raises(InvalidPlan, match="the new steps need a step_id up to 1000001, and 1000000 is the highest"):
        join_plans(line(1), [], line(2), highest_id=999_999)
    assert [step.step_id for step in join_plans(line(1), [], line(2), highest_id=999_998).steps] == [999_999, 1_000_000]


def test_a_joined_plan_with_too_many_steps_is_refused() -> None:  # P-05
    plan = line(19)
    with pytest.raises(InvalidPlan, match="steps: a list must have 20 or fewer items, not 21"):
        join_plans(plan, plan.steps, line(2), highest_id=19)


def test_the_paused_step_is_not_kept() -> None:  # P-102
    assert [s.step_id for s in select_kept_steps(line(3), [1, 2, 3], dropped=2)] == [1, 3]
    assert select_kept_steps(line(3), [1, 3], dropped=2)[1].depends_on == ()


def test_a_fallback_replaces_its_action() -> None:  # P-106
    plan = line(2, fallback="reasoning", description="d")
    step = apply_fallback(plan, 2).steps[1]
    assert (step.step_id, step.action, step.description, step.fallback) == (2, "reasoning", "[代替] d", None)
    assert not apply_fallback(plan, 2).requires_confirmation
    with pytest.raises(ValueError, match="no usable fallback"):
        apply_fallback(line(2), 2)


def test_a_skipped_step_leaves_no_reference() -> None:  # P-107
    left = remove_step(line(3), 2)
    assert [(s.step_id, s.depends_on) for s in left.steps] == [(1, ()), (3, ())]


def test_hints_name_the_event_and_the_remedy() -> None:  # P-101, P-105
    done = {1: StepResult(step_id=1, status="success", output="found", confidence=1)}
    replan_context = context(Trigger.STEP_FAILED, 2, error_message="boom", completed_results=done)
    plan = line(2)
    head = [
        "今の計画:",
        '{"step_id": 1, "action": "run_legacy_agent", "query": "s1", "description": "d1"}',
        '{"step_id": 2, "action": "run_legacy_agent", "query": "s2", "depends_on": [1], "description": "d2"}',
        "失敗したステップ: Step 2",
        "エラー: boom",
    ]
    last = "失敗したステップを同じまま繰り返さないこと。"
    rest = "完了済みのステップは結果とともに残る。残りのステップだけを、step_id を 3 から付けて計画すること。"
    rest += "depends_on には完了済みのステップも書ける。"
    assert build_replan_hints(replan_context, plan, broader=False).splitlines() == [
        *head,
        "完了済みの作業:",
        "- Step 1: found",
        rest,
        last,
    ]
    english = build_replan_hints(replan_context, plan, broader=False, language="en").splitlines()
    assert english[-4:-1] == [
        "Finished work:",
        "- Step 1: found",
        "Finished steps are kept with their results. Plan only the remaining steps, and number them from 3 on. "
        "Their depends_on may name finished steps.",
    ]
    broader = build_replan_hints(replan_context, plan, broader=True)
    assert broader.splitlines() == [*head, "より広い検索語を使うこと。", last]


def test_a_plan_repeats_another_if_its_steps_do_the_same() -> None:
    plan = line(2)
    renumbered = agent_plan(agent_step(7, query="s1", description="other words"), agent_step(8, 7, query="s2"))
    assert repeats_plan(plan, [], renumbered)
    assert not repeats_plan(plan, plan.steps[:1], renumbered)
    assert repeats_plan(plan, plan.steps[:1], agent_plan(agent_step(9, query="s2")))
    assert not repeats_plan(plan, [], line(2, collection="notes"))


@given(
    old=st.integers(1, 8),
    new=st.integers(1, 8),
    successful_steps=st.sets(st.integers(1, 8)),
    dropped=st.none() | st.integers(1, 8),
    spare=st.integers(0, 50),
)
def test_a_joined_plan_can_be_executed(
    old: int, new: int, successful_steps: set[int], dropped: int | None, spare: int
) -> None:  # P-103, P-133, P-144
    plan = line(old)
    kept_steps = select_kept_steps(plan, sorted(successful_steps & set(range(1, old + 1))), dropped)
    merged = join_plans(plan, kept_steps, line(new), old + spare)
    assert validate_dependencies(merged) == []
    assert {s.step_id for s in merged.steps[len(kept_steps) :]}.isdisjoint(range(1, old + spare + 1))
