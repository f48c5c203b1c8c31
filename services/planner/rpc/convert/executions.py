"""Encode executions and the events of their logs as messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from google.protobuf.message import Message

from chassis.server.messages import encode, encode_enum
from hansei.planner.v1 import planner_pb2 as pb
from services.planner.domain import events
from services.planner.domain.execution import ExecutionState
from services.planner.domain.results import order_results
from services.planner.domain.thresholds import Thresholds
from services.planner.rpc.convert.plans import encode_budget
from services.planner.usecases.ports import derive_status

TokenOf = Callable[[events.RecordedEvent], str]


def encode_event(
    execution_id: str, recorded: events.RecordedEvent, state: ExecutionState, token_of: TokenOf
) -> pb.ExecutionEvent:
    """Return an event as a message; `state` is the state that includes it."""
    event = recorded.event
    field = "log" if isinstance(event, events.ReplanRefused) else event.kind
    return encode(
        recorded,
        pb.ExecutionEvent,
        execution_id=execution_id,
        **{field: _encode_content(recorded, state, token_of)},
    )


def _encode_content(recorded: events.RecordedEvent, state: ExecutionState, token_of: TokenOf) -> Message:
    match recorded.event:
        case events.ExecutionStarted() as event:
            return encode(event, pb.ExecutionStarted, budget=encode_budget(event.budget))
        case events.StepStarted() as event:
            return encode(event, pb.StepStarted, idempotency_key=event.key)
        case events.ToolReturned() as event:
            return encode(event.result, pb.ToolReturned, step_id=event.step_id, attempt=event.attempt)
        case events.StepFinished() as event:
            return encode(
                event,
                pb.StepFinished,
                result=state.step_results.get(event.step_id),
                confidence=encode(event.confidence, pb.ConfidenceScore, calibrated=event.calibrated),
                thresholds=Thresholds(*event.thresholds),
            )
        case events.InterventionRequested() as event:
            return encode(
                event.request,
                pb.InterventionRequest,
                plan=state.plan,
                plan_version=event.plan_version,
                expires_at=event.expires_at,
                answer_token=token_of(recorded),
            )
        case events.Replanned() as event:
            return encode(event.result, pb.Replanned, trigger=event.trigger)
        case events.ReplanRefused() as event:
            return pb.LogLine(message=f"replan refused for now: {event.trigger.value}")
        case events.ExecutionFinished() as event:
            return encode(event.result, pb.ExecutionResult)
        case event:
            return encode(event, _MESSAGES[event.kind])


_MESSAGES: dict[str, type[Message]] = {
    "step_skipped": pb.StepSkipped,
    "step_in_doubt": pb.StepInDoubt,
    "intervention_answered": pb.InterventionAnswered,
    "information_added": pb.InformationAdded,
    "log": pb.LogLine,
    "cancel_requested": pb.CancelRequested,
}


def encode_execution(
    state: ExecutionState, question: events.RecordedEvent | None, token_of: TokenOf, now: datetime
) -> pb.Execution:
    """Return an execution as a message; `question` is its open question, None unless it is paused."""
    usage = encode(state, pb.Usage)
    usage.wall_time.FromNanoseconds(round(1e9 * state.compute_wall_seconds(now)))
    step_status = pb.StepStatus.DESCRIPTOR
    return encode(
        state,
        pb.Execution,
        status=derive_status(state),
        step_statuses={step_id: encode_enum(step_status, status) for step_id, status in state.step_statuses.items()},
        step_results=order_results(state.plan, state.step_results),
        intervention_request=None if question is None else _encode_content(question, state, token_of),
        budget=encode_budget(state.budget),
        usage=usage,
    )
