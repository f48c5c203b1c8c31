"""When and how a plan is replaced, and how old and new steps are joined (P-92 to P-109)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from services.planner.domain.errors import InvalidPlan
from services.planner.domain.plans import Action, ExecutionPlan, PlanStep, find_faults, replace_steps, utc_now
from services.planner.domain.results import StepResult

FROM_THE_START = "最初から"
ALTERNATIVE_PREFIX = "[代替] "
_EARLY = 0.34


class ReplanTrigger(StrEnum):
    """Why a plan is replaced (P-92)."""

    STEP_FAILED = "step_failed"
    LOW_CONFIDENCE = "low_confidence"
    USER_FEEDBACK = "user_feedback"
    NEW_INFORMATION = "new_information"
    TIMEOUT = "timeout"


class ReplanStrategy(StrEnum):
    """How a plan is replaced (P-92)."""

    PARTIAL = "partial"
    FULL = "full"
    FALLBACK = "fallback"
    SKIP = "skip"
    ABORT = "abort"


REASONS = {
    ReplanStrategy.FULL: "全体再計画",
    ReplanStrategy.PARTIAL: "部分再計画",
    ReplanStrategy.FALLBACK: "代替アクション適用",
    ReplanStrategy.SKIP: "失敗ステップスキップ",
    ReplanStrategy.ABORT: "最大リプラン回数超過により中断",
}


class ReplanContext(BaseModel):
    """What a replan starts from (P-99). `completed_results` holds successful steps only (P-140)."""

    model_config = ConfigDict(frozen=True)

    trigger: ReplanTrigger
    original_query: str
    failed_step_id: int | None = None
    error_message: str | None = None
    completed_results: dict[int, StepResult] = {}
    user_feedback: str | None = None
    new_information: str | None = None
    fallback_tried: bool = False
    replan_count: int = 0
    created_at: datetime = Field(default_factory=utc_now)


class ReplanResult(BaseModel):
    """What came of a replan (P-100)."""

    model_config = ConfigDict(frozen=True)

    success: bool
    strategy: ReplanStrategy
    new_plan: ExecutionPlan | None = None
    reason: str
    replan_count: int
    created_at: datetime = Field(default_factory=utc_now)


def successful_replan(strategy: ReplanStrategy, plan: ExecutionPlan, context: ReplanContext) -> ReplanResult:
    """The result of a replan that gave `plan`."""
    return ReplanResult(
        success=True,
        strategy=strategy,
        new_plan=plan,
        reason=REASONS[strategy],
        replan_count=context.replan_count + 1,
    )


def aborted_replan(context: ReplanContext) -> ReplanResult:
    """The result when no replan is left."""
    return ReplanResult(
        success=False,
        strategy=ReplanStrategy.ABORT,
        reason=REASONS[ReplanStrategy.ABORT],
        replan_count=context.replan_count,
    )


def failed_replan(strategy: ReplanStrategy, error: object, context: ReplanContext) -> ReplanResult:
    """The result of a replan that failed."""
    return ReplanResult(
        success=False, strategy=strategy, reason=f"リプラン失敗: {error}", replan_count=context.replan_count
    )


@dataclass(frozen=True, slots=True)
class ReplanManager:
    """Decides whether and how to replan; builds nothing."""

    max_replans: int = 3
    confidence_threshold: float = 0.4
    cooldown_seconds: float = 5.0

    def should_replan(self, result: StepResult, count: int, *, timed_out: bool = False) -> ReplanTrigger | None:
        """The trigger a step result gives, None for none (P-93). Low confidence is subject to P-86 as well."""
        if count >= self.max_replans:
            return None
        if result.status == "failed":
            return ReplanTrigger.TIMEOUT if timed_out else ReplanTrigger.STEP_FAILED
        return ReplanTrigger.LOW_CONFIDENCE if result.confidence < self.confidence_threshold else None

    def is_cooling_down(self, trigger: ReplanTrigger, last_replan_at: datetime | None, now: datetime) -> bool:
        """Whether a replan is refused because the previous one was moments ago (P-95)."""
        if trigger not in (ReplanTrigger.LOW_CONFIDENCE, ReplanTrigger.NEW_INFORMATION) or last_replan_at is None:
            return False
        return (now - last_replan_at).total_seconds() < self.cooldown_seconds

    def strategy(self, context: ReplanContext, plan: ExecutionPlan) -> ReplanStrategy:
        """How to replan (P-96); the first rule that matches."""
        if context.replan_count >= self.max_replans:
            return ReplanStrategy.ABORT
        failed = None if context.failed_step_id is None else plan.step(context.failed_step_id)
        if (
            context.trigger is ReplanTrigger.STEP_FAILED
            and failed is not None
            and failed.usable_fallback
            and not context.fallback_tried
        ):
            return ReplanStrategy.FALLBACK
        if context.trigger is ReplanTrigger.TIMEOUT:
            return ReplanStrategy.FULL
        if context.trigger is ReplanTrigger.USER_FEEDBACK:
            anew = FROM_THE_START in (context.user_feedback or "")
            return ReplanStrategy.FULL if anew else ReplanStrategy.PARTIAL
        if failed is not None and plan.position(failed.step_id) / len(plan.steps) <= _EARLY:
            return ReplanStrategy.FULL
        return ReplanStrategy.PARTIAL


def join_plans(
    plan: ExecutionPlan, kept: Sequence[PlanStep], new: ExecutionPlan, highest_id: int, *, confirm: bool = True
) -> ExecutionPlan:
    """`kept` steps of `plan`, then the steps of `new` under fresh ids (P-102 to P-105).

    `highest_id` is the highest step id the execution ever used, so that no new step can be taken for an old one
    (P-133). Raises InvalidPlan or a validation error if the joined plan is not executable.
    """
    numbers = {step.step_id: highest_id + i for i, step in enumerate(new.steps, start=1)}
    kept_ids = [step.step_id for step in kept]
    steps = list(kept)
    for step in new.steps:
        needed = {numbers[dependency] for dependency in step.depends_on if dependency in numbers}
        if steps:
            needed.add(steps[-1].step_id)
        if step.action is Action.REASONING:
            needed.update(kept_ids)
        steps.append(
            step.model_copy(update={"step_id": numbers[step.step_id], "depends_on": tuple(sorted(needed))}),
        )
    merged = replace_steps(plan, steps, requires_confirmation=confirm)
    messages = find_faults(merged, merged.prefix)
    if messages:
        raise InvalidPlan(messages)
    return merged


def apply_fallback(plan: ExecutionPlan, step_id: int) -> ExecutionPlan:
    """`plan` with a step's fallback in the place of its action (P-106); ValueError if it has none."""
    step = plan.step(step_id)
    if step.usable_fallback is None:
        raise ValueError(f"Step {step_id} has no usable fallback")
    replaced = step.model_copy(
        update={
            "action": step.usable_fallback,
            "description": ALTERNATIVE_PREFIX + step.description,
            "fallback": None,
        }
    )
    steps = [replaced if each.step_id == step_id else each for each in plan.steps]
    return replace_steps(plan, steps, requires_confirmation=False)


def select_kept_steps(plan: ExecutionPlan, successful_steps: Sequence[int], dropped: int | None) -> list[PlanStep]:
    """The steps a partial replan keeps: successful ones, without the failed or paused one (P-102).

    A kept step whose own dependency is not kept keeps its result; only the reference goes.
    """
    kept = {step_id for step_id in successful_steps if step_id != dropped}
    return [
        step.model_copy(update={"depends_on": tuple(d for d in step.depends_on if d in kept)})
        for step in plan.steps
        if step.step_id in kept
    ]


def hints(context: ReplanContext, *, broader: bool) -> str:
    """What the planning model is told about the replan (P-101, P-105); it reaches only its prompt (P-138)."""
    parts = []
    if context.error_message:
        parts.append(f"エラー: {context.error_message}")
    if context.user_feedback:
        parts.append(f"ユーザーのフィードバック: {context.user_feedback}")
    if context.new_information:
        parts.append(f"新しい情報: {context.new_information}")
    if broader:
        parts.append("より広い検索語を使うこと。")
    else:
        done = [f"- Step {i}: {(r.output or '')[:300]}" for i, r in sorted(context.completed_results.items())]
        if done:
            parts.append("完了済みの作業:\n" + "\n".join(done))
    return "\n".join(parts)
