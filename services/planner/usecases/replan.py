"""Builds the plan that replaces another (P-100 to P-109). What is decided here was measured there: ReplanManager."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from chassis.errors import shortened
from chassis.logging import get_logger
from services.planner.domain.events import Outcome, Replanned
from services.planner.domain.execution import ExecutionState, Wish
from services.planner.domain.plans import ExecutionPlan
from services.planner.domain.replanning import (
    ReplanContext,
    ReplanManager,
    ReplanResult,
    ReplanStrategy,
    ReplanTrigger,
    aborted,
    hints,
    in_vain,
    joined,
    kept_steps,
    succeeded,
    with_fallback,
)
from services.planner.usecases.plan import PlanMade, Planner

_log = get_logger(__name__)

OnReplan = Callable[[ReplanResult], Awaitable[None] | None]


class ReplanOrchestrator:
    """Carries out what a ReplanManager decides."""

    def __init__(self, planner: Planner, manager: ReplanManager, on_replan: OnReplan | None = None) -> None:
        self._planner = planner
        self._manager = manager
        self._on_replan = on_replan

    async def replan(self, state: ExecutionState, trigger: ReplanTrigger, step_id: int | None, text: str) -> Replanned:
        """The event of a replan; never raises. `text` is the error, the feedback or the new information."""
        context = _context(state, trigger, step_id, text)
        strategy = self._manager.strategy(context, state.plan)
        made: PlanMade | None = None
        try:
            if strategy is ReplanStrategy.ABORT:
                return await self._told(Replanned(trigger=trigger, result=aborted(context)))
            if strategy is ReplanStrategy.FALLBACK and step_id is not None:
                result = succeeded(strategy, with_fallback(state.plan, step_id), context)
                return await self._told(Replanned(trigger=trigger, result=result, reset=(step_id,)))
            full = strategy is ReplanStrategy.FULL
            made = await self._planner.create_plan(
                state.plan.original_query, hints(context, broader=full), gate=False, prefix=state.plan.prefix
            )
            kept = [] if full else kept_steps(state.plan, state.successful(), step_id)
            result = succeeded(strategy, joined(state.plan, kept, made.plan, state.highest_step_id), context)
        except Exception as error:  # P-111: a replan that fails ends the run in order
            _log.warning("replan failed", error=shortened(str(error)))
            result = in_vain(strategy, shortened(str(error), 300), context)
        tokens, cost = (made.tokens, made.cost_micro_usd) if made else (0, 0)
        return await self._told(Replanned(trigger=trigger, result=result, token_usage=tokens, cost_micro_usd=cost))

    async def replace(self, state: ExecutionState, wish: Wish) -> Replanned:
        """The event that takes the plan a person gave (P-108) or had refined before the start (P-52)."""
        context = _context(state, wish.trigger, wish.step_id, wish.text)
        tokens = cost = 0
        try:
            if wish.outcome is Outcome.REFINE or wish.plan is None:
                made = await self._planner.refine_plan(state.plan, wish.text)
                plan = made.plan.model_copy(update={"requires_confirmation": True})
                tokens, cost = made.tokens, made.cost_micro_usd
            elif wish.step_id is None:
                plan = _given(state, wish.plan)
            else:
                before = state.plan.steps[: state.plan.position(wish.step_id) - 1]
                done = set(state.successful())
                kept = kept_steps(state.plan, [s.step_id for s in before if s.step_id in done], wish.step_id)
                plan = joined(state.plan, kept, wish.plan, state.highest_step_id)
            result = succeeded(ReplanStrategy.PARTIAL, plan, context)
        except Exception as error:  # P-111, as above
            _log.warning("replan failed", error=shortened(str(error)))
            result = in_vain(ReplanStrategy.PARTIAL, shortened(str(error), 300), context)
        result = result.model_copy(update={"replan_count": state.replan_count})
        return await self._told(
            Replanned(trigger=wish.trigger, result=result, counted=False, token_usage=tokens, cost_micro_usd=cost)
        )

    async def _told(self, event: Replanned) -> Replanned:
        if self._on_replan is not None:
            try:
                told = self._on_replan(event.result)
                if told is not None:
                    await told
            except Exception:  # P-112: a listener's error is only logged
                _log.warning("on_replan failed", exc_info=True)
        return event


def _given(state: ExecutionState, plan: ExecutionPlan) -> ExecutionPlan:
    """A person's plan under the id and the query of the execution (P-109, P-138)."""
    return plan.model_copy(update={"plan_id": state.plan.plan_id, "original_query": state.plan.original_query})


def _context(state: ExecutionState, trigger: ReplanTrigger, step_id: int | None, text: str) -> ReplanContext:
    wished = trigger is ReplanTrigger.USER_FEEDBACK
    informed = trigger is ReplanTrigger.NEW_INFORMATION
    return ReplanContext(
        trigger=trigger,
        original_query=state.plan.original_query,
        failed_step_id=step_id,
        error_message=text if text and not wished and not informed else None,
        completed_results={i: state.step_results[i] for i in state.successful() if i != step_id},
        user_feedback=text if wished else None,
        new_information=text if informed else None,
        # The executor has tried the fallback before it asks for a replan (P-43, P-98).
        fallback_tried=True,
        replan_count=state.replan_count,
    )
