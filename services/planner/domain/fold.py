"""Apply events to the state of an execution (P-10).

Only `apply` changes a state, and it depends on nothing but the event and its time; so replaying the log of an execution
anywhere gives the same state, without any call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from pydantic import TypeAdapter

from services.planner.domain import events
from services.planner.domain.events import (
    PLAN_CHANGES,
    AnswerOutcome,
    Event,
    InterventionAnswered,
    RecordedEvent,
    Replanned,
    StepFinished,
)
from services.planner.domain.execution import ExecutionState, PlanChangeRequest, StepToolCall
from services.planner.domain.interventions import InterventionAction, build_history_entry
from services.planner.domain.plans import Action, StepStatus
from services.planner.domain.replanning import ReplanTrigger
from services.planner.domain.results import Hit, StepResult, ToolResult, deduplicate

_HITS: TypeAdapter[tuple[Hit, ...]] = TypeAdapter(tuple[Hit, ...])


def apply(state: ExecutionState, event: Event, time: datetime) -> None:
    """Apply one event, recorded at `time`, to the state."""
    match event:
        case events.ExecutionStarted():
            state.budget, state.human_available = event.budget, event.human_available
            state.max_replans, state.start_time = event.max_replans, time
            state.language_setting = event.language
        case events.StepStarted():
            _apply_step_started(state, event)
        case events.ToolReturned():
            state.tokens += event.result.token_usage
            state.cost_micro_usd += event.result.cost_micro_usd
            call = state.find_last_call(event.step_id)
            if call is not None and call.attempt == event.attempt:
                _replace_last_call(state, event.step_id, replace(call, result=event.result, in_doubt=False))
        case events.StepInDoubt():
            call = state.find_last_call(event.step_id)
            if call is not None and call.attempt == event.attempt:
                _replace_last_call(state, event.step_id, replace(call, in_doubt=True))
        case events.StepFinished():
            _finish_step(state, event, time)
        case events.StepSkipped():
            _drop_result(state, event.step_id, StepStatus.SKIPPED)
        case events.InterventionRequested():
            state.is_paused, state.paused_at, state.expires_at = True, time, event.expires_at
            state.intervention_request = event.request.model_copy(update={"plan": state.plan})
        case events.InterventionAnswered():
            request, response = state.intervention_request, event.response
            _unpause(state, time)
            if request is not None:
                outcome = (response.action, response.timeout_reached)
                state.history += (build_history_entry(time, request.level, request.message, *outcome),)
            _apply_answer(state, event, time)
        case events.Replanned():
            _apply_replanned(state, event, time)
        case events.ReplanRefused():
            state.information_pending = False
        case events.InformationAdded():
            state.information = (*state.information, event.text)
            state.information_pending = True
        case events.CancelRequested():
            state.is_cancelled = True
            _unpause(state, time)
        case events.ExecutionFinished():
            state.result, state.end_time = event.result, time
        case events.LogLine():
            pass


def replay(log: Iterable[RecordedEvent]) -> ExecutionState:
    """Return the state that a log gives. Raises ValueError unless its first event is `ExecutionStarted`."""
    state: ExecutionState | None = None
    for recorded in log:
        if state is None:
            if not isinstance(recorded.event, events.ExecutionStarted):
                raise ValueError(f"the first event of a log must be `started`, got `{recorded.event.kind}`")
            state = ExecutionState(recorded.event.plan)
        apply(state, recorded.event, recorded.created_at)
        state.sequence = recorded.sequence
    if state is None:
        raise ValueError("an empty log has no state")
    return state


def _apply_step_started(state: ExecutionState, event: events.StepStarted) -> None:
    state.step_statuses[event.step_id] = StepStatus.RUNNING
    state.current_step_id = event.step_id
    state.plan_confirmed = True
    state.tool_calls += 1
    state.attempts[event.step_id] = event.attempt
    call = StepToolCall(event.attempt, event.action, event.key, event.effect)
    state.calls[event.step_id] = (*state.calls.get(event.step_id, ()), call)


def _replace_last_call(state: ExecutionState, step_id: int, call: StepToolCall) -> None:
    state.calls[step_id] = (*state.calls[step_id][:-1], call)


def _collect_sources(state: ExecutionState, step_id: int, result: ToolResult) -> tuple[str, ...]:
    """Return the sources of a step's result (P-42); the legacy agent names its sources after `Source:` (P-35)."""
    if result.hits:
        return deduplicate(hit.source for hit in result.hits)
    if state.find_used_action(step_id) is Action.RUN_LEGACY_AGENT:
        lines = (result.text or "").splitlines()
        return deduplicate(line.removeprefix("Source:").strip() for line in lines if line.startswith("Source:"))
    return state.list_dependency_sources(step_id)


def _finish_step(state: ExecutionState, event: StepFinished, time: datetime) -> None:
    results = [call.result for call in state.calls[event.step_id] if call.result]
    returned = state.calls[event.step_id][-1].result
    if returned is None:
        return
    succeeded = event.status == "success"
    output = _HITS.dump_json(returned.hits).decode() if returned.hits else returned.text
    state.tokens += event.token_usage
    state.cost_micro_usd += event.cost_micro_usd
    state.judgements[event.step_id] = event
    state.step_results[event.step_id] = StepResult(
        step_id=event.step_id,
        status=event.status,
        output=output if succeeded else None,
        confidence=event.confidence.score if succeeded else 0.0,
        sources=_collect_sources(state, event.step_id, returned) if succeeded else (),
        error=None if succeeded else returned.error,
        execution_time_ms=sum(result.execution_time_ms or 0 for result in results),
        token_usage=(sum(result.token_usage for result in results) + event.token_usage) or None,
        searched_collections=deduplicate(name for result in results for name in result.searched_collections),
        created_at=time,
    )
    state.step_statuses[event.step_id] = StepStatus(event.status)
    if succeeded and not event.level.requires_answer:
        state.settled_steps |= {event.step_id}
        state.history += (build_history_entry(time, event.level, f"Step {event.step_id}", InterventionAction.PROCEED),)


def _drop_result(state: ExecutionState, step_id: int, status: StepStatus) -> None:
    state.step_results.pop(step_id, None)
    state.judgements.pop(step_id, None)
    state.calls.pop(step_id, None)
    state.settled_steps -= {step_id}
    state.step_statuses[step_id] = status


def _unpause(state: ExecutionState, time: datetime) -> None:
    if state.paused_at is not None:
        state.paused_seconds += (time - state.paused_at).total_seconds()
    state.is_paused, state.paused_at, state.expires_at = False, None, None
    state.intervention_request = None


def _apply_answer(state: ExecutionState, event: InterventionAnswered, time: datetime) -> None:
    step_id, response, outcome = event.step_id, event.response, event.outcome
    text = response.user_input or ""
    if outcome is AnswerOutcome.CANCEL:
        state.is_cancelled = True
    elif outcome in PLAN_CHANGES:
        trigger = event.trigger or ReplanTrigger.USER_FEEDBACK
        state.plan_change = PlanChangeRequest(outcome, trigger, step_id, text, response.modified_plan)
        state.refinements += step_id is None
    elif step_id is None:
        state.plan_confirmed = True
        _add_user_input(state, response.action, text)
    elif outcome is AnswerOutcome.RETRY:
        call = state.find_last_call(step_id)
        if call is not None and call.held_call is not None and response.action is InterventionAction.PROCEED:
            state.approved_calls |= {call.held_call.call_key}
        state.retries[step_id] = state.retries.get(step_id, 0) + 1
        _add_user_input(state, response.action, text)
        _drop_result(state, step_id, StepStatus.PENDING)
    elif outcome is AnswerOutcome.SKIP:
        _drop_result(state, step_id, StepStatus.SKIPPED)
    else:
        state.settled_steps |= {step_id}
        if outcome is AnswerOutcome.ANSWERED:
            _set_answer_text(state, step_id, text or response.selected_option or "", time)
        else:
            _add_user_input(state, response.action, text)


def _add_user_input(state: ExecutionState, action: InterventionAction, text: str) -> None:
    """Add the text of a person to the context of later reasoning steps (P-50)."""
    if action is InterventionAction.INPUT and text.strip():
        state.user_inputs = (*state.user_inputs, text)


def _set_answer_text(state: ExecutionState, step_id: int, text: str, time: datetime) -> None:
    """Use the text of a person as the result of the step (P-49)."""
    state.step_statuses[step_id] = StepStatus.SUCCESS
    state.step_results[step_id] = StepResult(
        step_id=step_id, status="success", output=text, confidence=1.0 if text else 0.0, created_at=time
    )


def _apply_replanned(state: ExecutionState, event: Replanned, time: datetime) -> None:
    state.plan_change, state.information_pending = None, False
    state.tokens += event.token_usage
    state.cost_micro_usd += event.cost_micro_usd
    if not event.result.success or event.result.new_plan is None:
        state.replan_failed, state.replan_failure = True, event.result.reason
        return
    if event.counted:
        state.replan_count = event.result.replan_count
        state.last_replan_at = time
    kept_ids = set(state.list_successful_steps()) - set(event.reset)
    old_ids = set(state.step_statuses)
    state.plan, state.plan_version = event.result.new_plan, state.plan_version + 1
    new_ids = [step.step_id for step in state.plan.steps]
    for step_id in old_ids.union(new_ids) - kept_ids.intersection(new_ids):
        _drop_result(state, step_id, StepStatus.PENDING)
    state.step_statuses = {
        step_id: StepStatus.SUCCESS if step_id in kept_ids else StepStatus.PENDING for step_id in new_ids
    }
    state.highest_step_id = max(state.highest_step_id, *new_ids)
