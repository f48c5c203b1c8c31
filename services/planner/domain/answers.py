"""Interpret answers to the open question of an execution (P-49 to P-52, P-85, P-86)."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from chassis.errors import Violation
from services.planner.domain.errors import AnswerRefused, InvalidPlan
from services.planner.domain.events import PLAN_CHANGES, AnswerOutcome, InterventionAnswered
from services.planner.domain.execution import ExecutionState, StepToolCall
from services.planner.domain.interventions import (
    InterventionAction,
    InterventionRequest,
    InterventionResponse,
    choose_default,
    wants_replan,
)
from services.planner.domain.plans import ANSWERS, Action, StepStatus, find_faults
from services.planner.domain.replanning import ReplanManager, ReplanTrigger
from services.planner.domain.thresholds import InterventionLevel


class InterventionPolicy(BaseModel):
    """Rules for questions to people (P-88)."""

    model_config = ConfigDict(frozen=True)

    default_timeout: int = Field(default=300, ge=1)
    auto_proceed_on_timeout: bool = False
    max_clarification_rounds: int = Field(default=3, ge=0)


def awaits_answer_text(state: ExecutionState, step_id: int) -> bool:
    """Return True if the text of a person becomes the result of the step: it asks the user, or its call is in doubt."""
    call = state.find_last_call(step_id)
    if call is None:
        return state.find_used_action(step_id) is Action.ASK_USER
    return call.action is Action.ASK_USER or call.in_doubt or asks_as_agent(call)


def asks_as_agent(call: StepToolCall) -> bool:
    """Return True if the call is one of `run_legacy_agent` that returned a question of its own."""
    result = call.result
    return call.action is Action.RUN_LEGACY_AGENT and result is not None and result.question is not None


def _must_run_again(state: ExecutionState, step_id: int) -> bool:
    """Return True if the step must run again because only this step can use the text of the person.

    An agent needs the answer to its question. Information about a low confidence reaches the answering steps that
    follow (P-50); the last of them has none to follow it.
    """
    call = state.find_last_call(step_id)
    if call is None or call.in_doubt:
        return False
    if asks_as_agent(call):
        return True
    later = state.plan.steps[state.plan.find_position(step_id) :]
    pending = any(s.action in ANSWERS and state.step_statuses[s.step_id] is StepStatus.PENDING for s in later)
    judgement = state.judgements.get(step_id)
    needs_information = judgement is not None and judgement.level is InterventionLevel.ESCALATE
    return needs_information and call.action in ANSWERS and not pending


def interpret_response(
    state: ExecutionState, request: InterventionRequest, response: InterventionResponse, policy: InterventionPolicy
) -> InterventionAnswered:
    """Return the event for an answer to a question. Raises AnswerRefused, InvalidPlan."""
    plan = response.modified_plan
    if plan is not None and (messages := find_faults(plan, state.plan.prefix, state.language)):
        raise InvalidPlan(messages)
    outcome = (
        _find_outcome_for_plan(state, response, policy)
        if request.step_id is None
        else _find_outcome_for_step(state, request.step_id, response, policy)
    )
    trigger = ReplanTrigger.USER_FEEDBACK if outcome in PLAN_CHANGES else None
    return InterventionAnswered(step_id=request.step_id, response=response, outcome=outcome, trigger=trigger)


def _format_text(response: InterventionResponse) -> str:
    return (response.user_input or "").strip()


def _find_outcome_for_plan(
    state: ExecutionState, response: InterventionResponse, policy: InterventionPolicy
) -> AnswerOutcome:
    """Return the outcome of an answer about the plan, whose refinements are limited (P-52)."""
    action = response.action
    if action in (InterventionAction.RETRY, InterventionAction.SKIP):
        raise AnswerRefused(f'action "{action.value}" is for questions about a step; this one is about the plan')
    if action is InterventionAction.INPUT and wants_replan(_format_text(response)):
        action = InterventionAction.MODIFY
    if action is InterventionAction.MODIFY:
        if state.refinements >= policy.max_clarification_rounds:
            return AnswerOutcome.CANCEL
        if response.modified_plan is not None:
            return AnswerOutcome.REPLACE
        return AnswerOutcome.REFINE if _format_text(response) else AnswerOutcome.CANCEL
    return AnswerOutcome.CANCEL if action is InterventionAction.CANCEL else AnswerOutcome.PROCEED


def _find_outcome_for_step(
    state: ExecutionState, step_id: int, response: InterventionResponse, policy: InterventionPolicy
) -> AnswerOutcome:
    """Return the outcome of an answer about a step (P-49 to P-51).

    The input to an ask_user step is its result even if it reads like a request to replan: P-49 precedes P-51.
    """
    call = state.find_last_call(step_id)
    has_rounds = state.retries.get(step_id, 0) < policy.max_clarification_rounds
    is_held = call is not None and call.held_call is not None
    if is_held and (outcome := _find_held_outcome(response, has_rounds=has_rounds)):
        return outcome
    action, awaits_text = response.action, awaits_answer_text(state, step_id)
    if action is InterventionAction.INPUT and not awaits_text and wants_replan(_format_text(response)):
        action = InterventionAction.MODIFY
    if action is InterventionAction.RETRY and not has_rounds:
        action = InterventionAction.PROCEED
    if action is InterventionAction.MODIFY:
        return AnswerOutcome.REPLAN if response.modified_plan is None else AnswerOutcome.REPLACE
    if action is InterventionAction.SKIP and response.remove_step and len(state.plan.steps) == 1:
        rule = f"remove_step cannot remove step {step_id}, the only step of the plan"
        violation = Violation("response.remove_step", rule)
        raise AnswerRefused(f"{rule}: skip it without remove_step, or cancel", violations=[violation])
    has_text = action is InterventionAction.INPUT and bool(_format_text(response))
    if has_text and has_rounds and _must_run_again(state, step_id):
        return AnswerOutcome.RETRY
    if action in (InterventionAction.PROCEED, InterventionAction.INPUT):
        return AnswerOutcome.ANSWERED if awaits_text else AnswerOutcome.PROCEED
    return {
        InterventionAction.CANCEL: AnswerOutcome.CANCEL,
        InterventionAction.RETRY: AnswerOutcome.RETRY,
        InterventionAction.SKIP: AnswerOutcome.REMOVE if response.remove_step else AnswerOutcome.SKIP,
    }[action]


def _find_held_outcome(response: InterventionResponse, *, has_rounds: bool) -> AnswerOutcome | None:
    """Return the outcome of an answer about a call that a guard holds; None if it is that of any other question.

    To proceed approves the call, and further information checks it again. Without the word of a person it is not made.
    """
    if response.action is InterventionAction.PROCEED:
        return AnswerOutcome.SKIP if response.timeout_reached else AnswerOutcome.RETRY
    if response.action is InterventionAction.INPUT and not wants_replan(_format_text(response)):
        return AnswerOutcome.RETRY if has_rounds else AnswerOutcome.SKIP
    return AnswerOutcome.SKIP if response.action is InterventionAction.RETRY and not has_rounds else None


def interpret_timeout(
    state: ExecutionState,
    request: InterventionRequest,
    policy: InterventionPolicy,
    replans: ReplanManager,
    now: datetime,
) -> InterventionAnswered:
    """Return the event for a question that nobody answered in time: the only implementation of P-85 and P-86."""
    score, trigger = request.confidence_score, ReplanTrigger.LOW_CONFIDENCE
    if (
        request.step_id is not None
        and score is not None
        and score < replans.confidence_threshold
        and state.can_replan()
        and not replans.is_cooling_down(trigger, state.last_replan_at, now)
    ):
        response = InterventionResponse(action=InterventionAction.MODIFY, timeout_reached=True, created_at=now)
        return InterventionAnswered(
            step_id=request.step_id, response=response, outcome=AnswerOutcome.REPLAN, trigger=trigger
        )
    response = choose_default(policy.auto_proceed_on_timeout).model_copy(update={"created_at": now})
    return interpret_response(state, request, response, policy)


def judge_answer(event: InterventionAnswered) -> bool | None:
    """Return True if the answer of a person means that the result of the step is wrong; None if it says neither.

    To proceed accepts the result; to repeat, skip or replace the step rejects it. Further information, a cancellation
    and an expired question say nothing about it.
    """
    action = event.response.action
    if event.response.timeout_reached:
        return None
    if action is InterventionAction.PROCEED and event.outcome is AnswerOutcome.PROCEED:
        return False
    rejects = action is InterventionAction.RETRY or event.outcome is AnswerOutcome.SKIP or event.outcome in PLAN_CHANGES
    return True if rejects else None
