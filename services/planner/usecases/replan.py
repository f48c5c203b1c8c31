"""Make the plan that replaces another (P-100 to P-109); `ReplanManager` decides, this module acts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from chassis.errors import shorten
from chassis.logging import get_logger
from services.planner.domain.events import AnswerOutcome, Replanned
from services.planner.domain.execution import ExecutionState, PlanChangeRequest
from services.planner.domain.plans import ExecutionPlan
from services.planner.domain.replanning import (
    ReplanContext,
    ReplanManager,
    ReplanResult,
    ReplanStrategy,
    ReplanTrigger,
    apply_fallback,
    build_replan_result,
    join_plans,
    remove_step,
    repeats_plan,
    select_kept_steps,
)
from services.planner.prompts.planning import build_replan_hints
from services.planner.usecases.plan import MadePlan, Planner

_log = get_logger(__name__)


_FAILURES = (ReplanTrigger.STEP_FAILED, ReplanTrigger.TIMEOUT, ReplanTrigger.LOW_CONFIDENCE)


class PlanRepeatedError(Exception):
    """The new plan would repeat the steps that failed."""

    def __init__(self, error: str | None, template_reason: str) -> None:
        reasons = [reason for reason in (template_reason, error and f"the step failed with: {error}") if reason]
        super().__init__("; ".join(["the new plan is identical to the old one", *reasons]))


OnReplan = Callable[[ReplanResult], Awaitable[None] | None]


class ReplanOrchestrator:
    """Carries out the decisions of a ReplanManager."""

    def __init__(self, planner: Planner, manager: ReplanManager, on_replan: OnReplan | None = None) -> None:
        self._planner = planner
        self._manager = manager
        self._on_replan = on_replan

    async def replan(self, state: ExecutionState, trigger: ReplanTrigger, step_id: int | None, text: str) -> Replanned:
        """Return the event of a replan. Raises nothing. `text` is the error, the feedback or the new information."""
        context, language = _build_context(state, trigger, step_id, text), state.language
        strategy = self._manager.choose_strategy(context, state.plan)
        made: MadePlan | None = None
        try:
            if strategy is ReplanStrategy.ABORT:
                result = build_replan_result(strategy, context, language=language)
                return await self._notify(Replanned(trigger=trigger, result=result))
            if strategy is ReplanStrategy.FALLBACK and step_id is not None:
                plan = apply_fallback(state.plan, step_id, language)
                result = build_replan_result(strategy, context, plan, language=language)
                return await self._notify(Replanned(trigger=trigger, result=result, reset=(step_id,)))
            full = strategy is ReplanStrategy.FULL
            kept_steps = [] if full else select_kept_steps(state.plan, state.list_successful_steps(), step_id)
            made = await self._planner.create_plan(
                state.plan.original_query,
                build_replan_hints(context, state.plan, broader=full, language=language),
                gate=False,
                prefix=state.plan.prefix,
                collection=state.plan.collection,
                kept_ids=[step.step_id for step in kept_steps],
            )
            if trigger in _FAILURES and repeats_plan(state.plan, kept_steps, made.plan):
                raise PlanRepeatedError(context.error_message, made.template_reason)
            plan = join_plans(state.plan, kept_steps, made.plan, state.highest_step_id)
            result = build_replan_result(strategy, context, plan, language=language)
        except Exception as error:  # P-111: a replan that fails ends the execution in order
            _log.warning("replan failed", error=shorten(str(error)))
            result = build_replan_result(strategy, context, error=shorten(str(error), 300), language=language)
        tokens, cost = (made.tokens, made.cost_micro_usd) if made else (0, 0)
        return await self._notify(Replanned(trigger=trigger, result=result, token_usage=tokens, cost_micro_usd=cost))

    async def replace(self, state: ExecutionState, plan_change: PlanChangeRequest) -> Replanned:
        """Return the event that uses the plan a person gave (P-108), refined (P-52) or shortened (P-107)."""
        context = _build_context(state, plan_change.trigger, plan_change.step_id, plan_change.text)
        is_removal = plan_change.outcome is AnswerOutcome.REMOVE
        strategy = ReplanStrategy.SKIP if is_removal else ReplanStrategy.PARTIAL
        tokens = cost = 0
        try:
            if is_removal and plan_change.step_id is not None:
                plan = remove_step(state.plan, plan_change.step_id)
            elif plan_change.outcome is AnswerOutcome.REFINE or plan_change.plan is None:
                made = await self._planner.refine_plan(state.plan, plan_change.text)
                plan = made.plan.model_copy(update={"requires_confirmation": True})
                tokens, cost = made.tokens, made.cost_micro_usd
            elif plan_change.step_id is None:
                plan = _keep_identity(state, plan_change.plan)
            else:
                before = state.plan.steps[: state.plan.find_position(plan_change.step_id) - 1]
                done = set(state.list_successful_steps())
                kept_steps = select_kept_steps(
                    state.plan, [s.step_id for s in before if s.step_id in done], plan_change.step_id
                )
                plan = join_plans(state.plan, kept_steps, plan_change.plan, state.highest_step_id)
            result = build_replan_result(strategy, context, plan, language=state.language)
        except Exception as error:  # P-111, as above
            _log.warning("replan failed", error=shorten(str(error)))
            message = shorten(str(error), 300)
            result = build_replan_result(strategy, context, error=message, language=state.language)
        result = result.model_copy(update={"replan_count": state.replan_count})
        return await self._notify(
            Replanned(
                trigger=plan_change.trigger, result=result, counted=False, token_usage=tokens, cost_micro_usd=cost
            )
        )

    async def _notify(self, event: Replanned) -> Replanned:
        if self._on_replan is not None:
            try:
                pending = self._on_replan(event.result)
                if pending is not None:
                    await pending
            except Exception:  # P-112: a listener's error is only logged
                _log.warning("the callback on_replan failed", exc_info=True)
        return event


def _keep_identity(state: ExecutionState, plan: ExecutionPlan) -> ExecutionPlan:
    """Return the plan of a person with the id, the query and the collection of the execution (P-109, P-138)."""
    identity = ("plan_id", "original_query", "collection")
    return plan.model_copy(update={name: getattr(state.plan, name) for name in identity})


def _build_context(state: ExecutionState, trigger: ReplanTrigger, step_id: int | None, text: str) -> ReplanContext:
    is_feedback = trigger is ReplanTrigger.USER_FEEDBACK
    is_information = trigger is ReplanTrigger.NEW_INFORMATION
    return ReplanContext(
        trigger=trigger,
        original_query=state.plan.original_query,
        failed_step_id=step_id,
        error_message=text if text and not is_feedback and not is_information else None,
        completed_results={i: state.step_results[i] for i in state.list_successful_steps() if i != step_id},
        user_feedback=text if is_feedback else None,
        new_information=text if is_information else None,
        # The executor tries the fallback before it requests a replan (P-43, P-98).
        fallback_tried=True,
        replan_count=state.replan_count,
    )
