"""How each event changes the state of an execution (P-10).

`apply` is the only thing that changes a state, and it looks at nothing but the event and its time; so the log of an
execution, replayed anywhere, gives the same state again, without calling anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from services.planner.domain.events import (
    AnswerOutcome,
    CancelRequested,
    Event,
    Finished,
    InformationAdded,
    InterventionAnswered,
    InterventionRequested,
    LogLine,
    Recorded,
    Replanned,
    ReplanRefused,
    Started,
    StepFinished,
    StepInDoubt,
    StepSkipped,
    StepStarted,
    ToolReturned,
)
from services.planner.domain.execution import ExecutionState, PlanChangeRequest, ToolCall
from services.planner.domain.interventions import HistoryEntry, InterventionAction
from services.planner.domain.plans import Action, StepStatus
from services.planner.domain.replanning import ReplanTrigger
from services.planner.domain.results import Hit, StepResult, ToolResult, distinct_values
from services.planner.domain.thresholds import InterventionLevel

_HITS: TypeAdapter[tuple[Hit, ...]] = TypeAdapter(tuple[Hit, ...])


def apply(state: ExecutionState, event: Event, at: datetime) -> None:
    """Takes one event, written at `at`, into the state."""
    _FOLD[event.kind](state, event, at)


def _started(state: ExecutionState, event: Started, at: datetime) -> None:
    state.budget, state.human_available, state.max_replans = event.budget, event.human_available, event.max_replans
    state.start_time = at


def _step_started(state: ExecutionState, event: StepStarted, at: datetime) -> None:
    state.step_statuses[event.step_id] = StepStatus.RUNNING
    state.current_step_id = event.step_id
    state.plan_confirmed = True
    state.tool_calls += 1
    state.attempts[event.step_id] = event.attempt
    call = ToolCall(event.attempt, event.action, event.key, event.effect)
    state.calls[event.step_id] = (*state.calls.get(event.step_id, ()), call)


def _with_last_call(state: ExecutionState, step_id: int, call: ToolCall) -> None:
    state.calls[step_id] = (*state.calls[step_id][:-1], call)


def _tool_returned(state: ExecutionState, event: ToolReturned, at: datetime) -> None:
    call = state.last_call(event.step_id)
    state.tokens += event.result.token_usage
    state.cost_micro_usd += event.result.cost_micro_usd
    if call is not None and call.attempt == event.attempt:
        _with_last_call(state, event.step_id, replace(call, result=event.result, in_doubt=False))


def _step_in_doubt(state: ExecutionState, event: StepInDoubt, at: datetime) -> None:
    call = state.last_call(event.step_id)
    if call is not None and call.attempt == event.attempt:
        _with_last_call(state, event.step_id, replace(call, in_doubt=True))


def _sources(state: ExecutionState, step_id: int, result: ToolResult) -> tuple[str, ...]:
    """The sources of a step's result (P-42); a tool that has sources but no hits names them after `Source:` (P-35)."""
    if result.hits:
        return distinct_values(hit.source for hit in result.hits)
    if state.used_action(step_id) is Action.RUN_LEGACY_AGENT:
        lines = (result.text or "").splitlines()
        return distinct_values(line.removeprefix("Source:").strip() for line in lines if line.startswith("Source:"))
    dependencies = state.plan.step(step_id).depends_on
    return distinct_values(s for d in dependencies if d in state.step_results for s in state.step_results[d].sources)


def _output(result: ToolResult) -> str | None:
    """A step's output as text (P-41)."""
    return _HITS.dump_json(result.hits).decode() if result.hits else result.text


def _step_finished(state: ExecutionState, event: StepFinished, at: datetime) -> None:
    calls = state.calls[event.step_id]
    returned = calls[-1].result
    if returned is None:
        return
    good = event.status == "success"
    state.tokens += event.token_usage
    state.cost_micro_usd += event.cost_micro_usd
    state.judgements[event.step_id] = event
    state.step_results[event.step_id] = StepResult(
        step_id=event.step_id,
        status=event.status,
        output=_output(returned) if good else None,
        confidence=event.confidence.score if good else 0.0,
        sources=_sources(state, event.step_id, returned) if good else (),
        error=None if good else returned.error,
        execution_time_ms=sum(c.result.execution_time_ms or 0 for c in calls if c.result),
        token_usage=(sum(c.result.token_usage for c in calls if c.result) + event.token_usage) or None,
        created_at=at,
    )
    state.step_statuses[event.step_id] = StepStatus(event.status)
    if good and not event.level.requires_answer:
        state.settled_steps |= {event.step_id}
        _remember(state, at, event.level, f"Step {event.step_id}", InterventionAction.PROCEED)


def _remember(
    state: ExecutionState,
    at: datetime,
    level: InterventionLevel,
    message: str,
    action: InterventionAction,
    *,
    timeout_reached: bool = False,
) -> None:
    entry = HistoryEntry(
        timestamp=at,
        level=level,
        action=level.action,
        message=message,
        response_action=action,
        timeout_reached=timeout_reached,
    )
    state.history = (*state.history, entry)


def _step_skipped(state: ExecutionState, event: StepSkipped, at: datetime) -> None:
    _drop(state, event.step_id, StepStatus.SKIPPED)


def _drop(state: ExecutionState, step_id: int, status: StepStatus) -> None:
    """Forgets what a step gave."""
    state.step_results.pop(step_id, None)
    state.judgements.pop(step_id, None)
    state.calls.pop(step_id, None)
    state.settled_steps -= {step_id}
    state.step_statuses[step_id] = status


def _requested(state: ExecutionState, event: InterventionRequested, at: datetime) -> None:
    state.is_paused, state.paused_at = True, at
    state.intervention_request = event.request.model_copy(update={"plan": state.plan})
    state.expires_at = event.expires_at


def _unpause(state: ExecutionState, at: datetime) -> None:
    if state.paused_at is not None:
        state.paused_seconds += (at - state.paused_at).total_seconds()
    state.is_paused, state.paused_at, state.expires_at = False, None, None
    state.intervention_request = None


def _answered(state: ExecutionState, event: InterventionAnswered, at: datetime) -> None:
    request, response = state.intervention_request, event.response
    _unpause(state, at)
    if request is not None:
        timed_out = response.timeout_reached
        _remember(state, at, request.level, request.message, response.action, timeout_reached=timed_out)
    _take_answer(state, event, at)


def _take_answer(state: ExecutionState, event: InterventionAnswered, at: datetime) -> None:
    step_id, response, outcome = event.step_id, event.response, event.outcome
    text = response.user_input or ""
    if outcome is AnswerOutcome.CANCEL:
        state.is_cancelled = True
    elif outcome in (AnswerOutcome.REPLAN, AnswerOutcome.REPLACE, AnswerOutcome.REFINE):
        trigger = event.trigger or ReplanTrigger.USER_FEEDBACK
        state.plan_change = PlanChangeRequest(outcome, trigger, step_id, text, response.modified_plan)
        state.refinements += step_id is None
    elif step_id is None:
        state.plan_confirmed = True
        _take_input(state, response.action, text)
    elif outcome is AnswerOutcome.RETRY:
        state.retries[step_id] = state.retries.get(step_id, 0) + 1
        _drop(state, step_id, StepStatus.PENDING)
    elif outcome is AnswerOutcome.SKIP:
        _drop(state, step_id, StepStatus.SKIPPED)
    else:
        state.settled_steps |= {step_id}
        if outcome is AnswerOutcome.ANSWERED:
            _take_text(state, step_id, text or response.selected_option or "", at)
        else:
            _take_input(state, response.action, text)


def _take_input(state: ExecutionState, action: InterventionAction, text: str) -> None:
    """Text a person added goes to later reasoning steps (P-50)."""
    if action is InterventionAction.INPUT and text.strip():
        state.user_inputs = (*state.user_inputs, text)


def _take_text(state: ExecutionState, step_id: int, text: str, at: datetime) -> None:
    """The text is the result of the step (P-49)."""
    state.step_statuses[step_id] = StepStatus.SUCCESS
    state.step_results[step_id] = StepResult(
        step_id=step_id, status="success", output=text, confidence=1.0 if text else 0.0, created_at=at
    )


def _replanned(state: ExecutionState, event: Replanned, at: datetime) -> None:
    state.plan_change, state.information_pending = None, False
    state.tokens += event.token_usage
    state.cost_micro_usd += event.cost_micro_usd
    if not event.result.success or event.result.new_plan is None:
        state.replan_failed = True
        return
    if event.counted:
        state.replan_count = event.result.replan_count
        state.last_replan_at = at
    kept = set(state.successful_steps()) - set(event.reset)
    before = set(state.step_statuses)
    state.plan, state.plan_version = event.result.new_plan, state.plan_version + 1
    now = {step.step_id for step in state.plan.steps}
    for step_id in (before | now) - (kept & now):
        _drop(state, step_id, StepStatus.PENDING)
    state.step_statuses = {
        i: StepStatus.SUCCESS if i in kept else StepStatus.PENDING for i in (s.step_id for s in state.plan.steps)
    }
    state.highest_step_id = max(state.highest_step_id, *now)


def _replan_refused(state: ExecutionState, event: ReplanRefused, at: datetime) -> None:
    state.information_pending = False


def _information_added(state: ExecutionState, event: InformationAdded, at: datetime) -> None:
    state.information = (*state.information, event.text)
    state.information_pending = True


def _log(state: ExecutionState, event: LogLine, at: datetime) -> None:
    """A line for people changes nothing."""


def _cancel_requested(state: ExecutionState, event: CancelRequested, at: datetime) -> None:
    state.is_cancelled = True
    _unpause(state, at)


def _finished(state: ExecutionState, event: Finished, at: datetime) -> None:
    state.result, state.end_time = event.result, at


_FOLD: Mapping[str, Callable[[ExecutionState, Any, datetime], None]] = {
    "started": _started,
    "step_started": _step_started,
    "tool_returned": _tool_returned,
    "step_finished": _step_finished,
    "step_skipped": _step_skipped,
    "step_in_doubt": _step_in_doubt,
    "intervention_requested": _requested,
    "intervention_answered": _answered,
    "replanned": _replanned,
    "replan_refused": _replan_refused,
    "information_added": _information_added,
    "log": _log,
    "cancel_requested": _cancel_requested,
    "finished": _finished,
}


def replay(log: Iterable[Recorded]) -> ExecutionState:
    """The state a log gives. Its first event must be `Started`, else ValueError."""
    state: ExecutionState | None = None
    for recorded in log:
        if state is None:
            if not isinstance(recorded.event, Started):
                raise ValueError(f"a log begins with started, not with {recorded.event.kind}")
            state = ExecutionState(recorded.event.plan)
        apply(state, recorded.event, recorded.created_at)
        state.sequence = recorded.sequence
    if state is None:
        raise ValueError("an empty log has no state")
    return state
