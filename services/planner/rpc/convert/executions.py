"""Between messages and the planner's own types: events of a log, executions, lists of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from services.planner.domain.events import (
    CancelRequested,
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
from services.planner.domain.execution import ExecutionState
from services.planner.domain.plans import StepStatus
from services.planner.domain.replanning import ReplanStrategy, ReplanTrigger
from services.planner.domain.results import in_plan_order
from services.planner.domain.thresholds import Thresholds
from services.planner.rpc.convert.plans import (
    ACTIONS,
    LEVELS,
    STEP_STATUSES,
    answer_to,
    budget_to,
    plan_to,
    question_to,
    result_to,
    score_to,
    step_result_to,
    thresholds_to,
    timestamp,
)
from services.planner.usecases.ports import ExecutionStatus, Summary, status_of

EXECUTION_STATUSES = {s: pb.ExecutionStatus.Value(f"EXECUTION_STATUS_{s.name}") for s in ExecutionStatus}
STATUSES_BACK = {number: status for status, number in EXECUTION_STATUSES.items()}
_TRIGGERS = {t: pb.ReplanTrigger.Value(f"REPLAN_TRIGGER_{t.name}") for t in ReplanTrigger}
_STRATEGIES = {s: pb.ReplanStrategy.Value(f"REPLAN_STRATEGY_{s.name}") for s in ReplanStrategy}

TokenOf = Callable[[Recorded], str]


def event_to(execution_id: str, recorded: Recorded, state: ExecutionState, token_of: TokenOf) -> pb.ExecutionEvent:
    """An event as a message; `state` is the state with it."""
    message = pb.ExecutionEvent(
        execution_id=execution_id,
        sequence=recorded.sequence,
        created_at=timestamp(recorded.created_at),
        hash=recorded.hash,
    )
    name, content = _CONTENT[type(recorded.event)](recorded.event, state, lambda: token_of(recorded))
    getattr(message, name).CopyFrom(content)
    return message


_Content = tuple[str, Any]
_Token = Callable[[], str]


def _started(event: Started, state: ExecutionState, token: _Token) -> _Content:
    return "started", pb.ExecutionStarted(
        plan=plan_to(event.plan), budget=budget_to(event.budget), human_available=event.human_available
    )


def _step_started(event: StepStarted, state: ExecutionState, token: _Token) -> _Content:
    return "step_started", pb.StepStarted(
        step_id=event.step_id, action=ACTIONS[event.action], attempt=event.attempt, idempotency_key=event.key
    )


def _tool_returned(event: ToolReturned, state: ExecutionState, token: _Token) -> _Content:
    return "tool_returned", pb.ToolReturned(
        step_id=event.step_id,
        attempt=event.attempt,
        success=event.result.success,
        error=event.result.error,
        execution_time_ms=event.result.execution_time_ms or 0,
    )


def _step_finished(event: StepFinished, state: ExecutionState, token: _Token) -> _Content:
    result = state.step_results.get(event.step_id)
    return "step_finished", pb.StepFinished(
        result=None if result is None else step_result_to(result),
        confidence=score_to(event.confidence, event.calibrated),
        level=LEVELS[event.level],
        thresholds=thresholds_to(Thresholds(*event.thresholds)),
        audit_probability=event.audit_probability,
        audited=event.audited,
    )


def _step_skipped(event: StepSkipped, state: ExecutionState, token: _Token) -> _Content:
    return "step_skipped", pb.StepSkipped(step_id=event.step_id, reason=event.reason)


def _in_doubt(event: StepInDoubt, state: ExecutionState, token: _Token) -> _Content:
    return "step_in_doubt", pb.StepInDoubt(step_id=event.step_id, attempt=event.attempt)


def _requested(event: InterventionRequested, state: ExecutionState, token: _Token) -> _Content:
    request = event.request.model_copy(update={"plan": state.plan})
    return "intervention_requested", question_to(request, event.plan_version, event.expires_at, token())


def _answered(event: InterventionAnswered, state: ExecutionState, token: _Token) -> _Content:
    return "intervention_answered", pb.InterventionAnswered(step_id=event.step_id, response=answer_to(event.response))


def _replanned(event: Replanned, state: ExecutionState, token: _Token) -> _Content:
    result = event.result
    return "replanned", pb.Replanned(
        trigger=_TRIGGERS[event.trigger],
        strategy=_STRATEGIES[result.strategy],
        success=result.success,
        new_plan=None if result.new_plan is None else plan_to(result.new_plan),
        reason=result.reason,
        replan_count=result.replan_count,
    )


def _refused(event: ReplanRefused, state: ExecutionState, token: _Token) -> _Content:
    return "log", pb.LogLine(message=f"replan refused for now: {event.trigger.value}")


def _information(event: InformationAdded, state: ExecutionState, token: _Token) -> _Content:
    return "information_added", pb.InformationAdded(text=event.text)


def _log(event: LogLine, state: ExecutionState, token: _Token) -> _Content:
    return "log", pb.LogLine(message=event.message, step_id=event.step_id)


def _cancel(event: CancelRequested, state: ExecutionState, token: _Token) -> _Content:
    return "cancel_requested", pb.CancelRequested(reason=event.reason)


def _finished(event: Finished, state: ExecutionState, token: _Token) -> _Content:
    return "finished", result_to(event.result)


_CONTENT: dict[type, Callable[[Any, ExecutionState, _Token], _Content]] = {
    Started: _started,
    StepStarted: _step_started,
    ToolReturned: _tool_returned,
    StepFinished: _step_finished,
    StepSkipped: _step_skipped,
    StepInDoubt: _in_doubt,
    InterventionRequested: _requested,
    InterventionAnswered: _answered,
    Replanned: _replanned,
    ReplanRefused: _refused,
    InformationAdded: _information,
    LogLine: _log,
    CancelRequested: _cancel,
    Finished: _finished,
}


def execution_to(state: ExecutionState, asked: Recorded | None, token_of: TokenOf, now: datetime) -> pb.Execution:
    """An execution as a message; `asked` is its open question, if it is paused."""
    message = pb.Execution(
        execution_id=state.execution_id,
        plan=plan_to(state.plan),
        plan_version=state.plan_version,
        status=EXECUTION_STATUSES[status_of(state)],
        step_statuses={i: STEP_STATUSES[StepStatus(s)] for i, s in state.step_statuses.items()},
        step_results=[step_result_to(result) for result in in_plan_order(state.plan, state.step_results)],
        replan_count=state.replan_count,
        overall_confidence=state.overall_confidence,
        budget=budget_to(state.budget),
        result=None if state.result is None else result_to(state.result),
        start_time=None if state.start_time is None else timestamp(state.start_time),
        end_time=None if state.end_time is None else timestamp(state.end_time),
        sequence=state.sequence,
    )
    message.usage.tokens, message.usage.cost_micro_usd = state.tokens, state.cost_micro_usd
    message.usage.tool_calls = state.tool_calls
    message.usage.wall_time.FromNanoseconds(round(1e9 * state.wall_seconds(now)))
    if asked is not None and isinstance(asked.event, InterventionRequested):
        _, question = _requested(asked.event, state, lambda: token_of(asked))
        message.intervention_request.CopyFrom(question)
    return message


def summary_to(summary: Summary) -> service_pb.ExecutionSummary:
    """An execution in a list."""
    return service_pb.ExecutionSummary(
        execution_id=summary.execution_id,
        original_query=summary.query,
        status=EXECUTION_STATUSES[summary.status],
        start_time=timestamp(summary.started_at),
        update_time=timestamp(summary.updated_at),
        sequence=summary.sequence,
    )
