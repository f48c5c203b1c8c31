"""Decide when and how a plan is replaced, and join old and new steps (P-92 to P-109)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from libs.prompts.language import Language
from services.planner.domain.errors import InvalidPlan
from services.planner.domain.plans import (
    MAX_STEP_ID,
    Action,
    ExecutionPlan,
    PlanStep,
    find_faults,
    replace_steps,
    utc_now,
)
from services.planner.domain.results import StepResult
from services.planner.domain.texts import TEXTS, contains_words

_EARLY = 0.34


class ReplanTrigger(StrEnum):
    """The cause of a replan (P-92)."""

    STEP_FAILED = "step_failed"
    LOW_CONFIDENCE = "low_confidence"
    USER_FEEDBACK = "user_feedback"
    NEW_INFORMATION = "new_information"
    TIMEOUT = "timeout"


class ReplanStrategy(StrEnum):
    """The way a plan is replaced (P-92)."""

    PARTIAL = "partial"
    FULL = "full"
    FALLBACK = "fallback"
    SKIP = "skip"
    ABORT = "abort"


class ReplanContext(BaseModel):
    """The input of a replan (P-99). `completed_results` contains successful steps only (P-140)."""

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
    """The outcome of a replan (P-100)."""

    model_config = ConfigDict(frozen=True)

    success: bool
    strategy: ReplanStrategy
    new_plan: ExecutionPlan | None = None
    reason: str
    replan_count: int
    created_at: datetime = Field(default_factory=utc_now)


def build_replan_result(
    strategy: ReplanStrategy,
    context: ReplanContext,
    plan: ExecutionPlan | None = None,
    error: str | None = None,
    language: Language = "ja",
) -> ReplanResult:
    """Return the result of a replan: successful with a plan, failed with an error, else without a replan left."""
    texts = TEXTS[language]
    return ReplanResult(
        success=plan is not None,
        strategy=strategy,
        new_plan=plan,
        reason=texts.replan_reasons[strategy] if error is None else texts.replan_failed.format(error=error),
        replan_count=context.replan_count + (plan is not None),
    )


class ReplanManager(BaseModel):
    """Decides whether and how to replan (P-92); makes no plan."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    max_replans: int = Field(default=3, ge=0)
    confidence_threshold: float = Field(default=0.4, ge=0, le=1)
    cooldown_seconds: float = Field(default=5.0, ge=0)

    def should_replan(self, result: StepResult, count: int, *, timed_out: bool = False) -> ReplanTrigger | None:
        """Return the trigger for a step result, None for none (P-93). Low confidence is subject to P-86 as well."""
        if count >= self.max_replans:
            return None
        if result.status == "failed":
            return ReplanTrigger.TIMEOUT if timed_out else ReplanTrigger.STEP_FAILED
        return ReplanTrigger.LOW_CONFIDENCE if result.confidence < self.confidence_threshold else None

    def is_cooling_down(self, trigger: ReplanTrigger, last_replan_at: datetime | None, now: datetime) -> bool:
        """Return True if a replan is refused because the previous one was too recent (P-95)."""
        if trigger not in (ReplanTrigger.LOW_CONFIDENCE, ReplanTrigger.NEW_INFORMATION) or last_replan_at is None:
            return False
        return (now - last_replan_at).total_seconds() < self.cooldown_seconds

    def choose_strategy(self, context: ReplanContext, plan: ExecutionPlan) -> ReplanStrategy:
        """Return the strategy of a replan (P-96); the first rule that matches."""
        if context.replan_count >= self.max_replans:
            return ReplanStrategy.ABORT
        failed = None if context.failed_step_id is None else plan.get_step(context.failed_step_id)
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
            restarts = contains_words(context.user_feedback or "", "restart_words")
            return ReplanStrategy.FULL if restarts else ReplanStrategy.PARTIAL
        if failed is not None and plan.find_position(failed.step_id) / len(plan.steps) <= _EARLY:
            return ReplanStrategy.FULL
        return ReplanStrategy.PARTIAL


def join_plans(
    plan: ExecutionPlan, kept_steps: Sequence[PlanStep], new: ExecutionPlan, highest_id: int
) -> ExecutionPlan:
    """Return the `kept_steps` of `plan`, then the steps of `new` under new ids (P-102 to P-105).

    `highest_id` is the highest step id that the execution ever used, so that no new step can be taken for an old one
    (P-133). Raises InvalidPlan if the joined plan is not executable.
    """
    last_id = highest_id + len(new.steps)
    if last_id > MAX_STEP_ID:
        raise InvalidPlan([f"the new steps need a step_id up to {last_id}, and {MAX_STEP_ID} is the highest"])
    numbers = {step.step_id: highest_id + i for i, step in enumerate(new.steps, start=1)}
    kept_ids = [step.step_id for step in kept_steps]
    steps = list(kept_steps)
    for step in new.steps:
        depends_on = {numbers[dependency] for dependency in step.depends_on if dependency in numbers}
        if steps:
            depends_on.add(steps[-1].step_id)
        if step.action is Action.REASONING:
            depends_on.update(kept_ids)
        steps.append(
            step.model_copy(update={"step_id": numbers[step.step_id], "depends_on": tuple(sorted(depends_on))}),
        )
    merged = replace_steps(plan, steps, requires_confirmation=True)
    if messages := find_faults(merged, merged.prefix):
        raise InvalidPlan(messages)
    return merged


def remove_step(plan: ExecutionPlan, step_id: int) -> ExecutionPlan:
    """Return `plan` without a step and without all references to it (P-107). Raises InvalidPlan for the only step."""
    steps = [
        step.model_copy(update={"depends_on": tuple(d for d in step.depends_on if d != step_id)})
        for step in plan.steps
        if step.step_id != step_id
    ]
    return replace_steps(plan, steps)


def repeats_plan(plan: ExecutionPlan, kept_steps: Sequence[PlanStep], new: ExecutionPlan) -> bool:
    """Return True if the steps of `new` do the same as the steps of `plan` that they replace."""
    kept_ids = {step.step_id for step in kept_steps}
    return _describe_work([step for step in plan.steps if step.step_id not in kept_ids]) == _describe_work(new.steps)


def _describe_work(steps: Sequence[PlanStep]) -> list[tuple[object, ...]]:
    """Return the actions and inputs of the steps, without ids and dependencies, which a replan changes."""
    return [
        (step.action, step.query or step.description, step.collection, step.usable_fallback, step.seconds)
        for step in steps
    ]


def apply_fallback(plan: ExecutionPlan, step_id: int, language: Language = "ja") -> ExecutionPlan:
    """Return `plan` with the fallback of a step instead of its action (P-106). Raises ValueError if it has none."""
    step = plan.get_step(step_id)
    if step.usable_fallback is None:
        raise ValueError(f"Step {step_id} has no usable fallback")
    replaced = step.model_copy(
        update={
            "action": step.usable_fallback,
            "description": TEXTS[language].alternative.format(description=step.description),
            "fallback": None,
        }
    )
    steps = [replaced if other.step_id == step_id else other for other in plan.steps]
    return replace_steps(plan, steps, requires_confirmation=False)


def select_kept_steps(plan: ExecutionPlan, successful_steps: Sequence[int], dropped: int | None) -> list[PlanStep]:
    """Return the steps that a partial replan keeps: successful ones, without the failed or paused one (P-102).

    A kept step whose own dependency is not kept keeps its result; only the reference is removed.
    """
    kept_ids = {step_id for step_id in successful_steps if step_id != dropped}
    return [
        step.model_copy(update={"depends_on": tuple(d for d in step.depends_on if d in kept_ids)})
        for step in plan.steps
        if step.step_id in kept_ids
    ]
