"""Executions as tasks: states, messages and artifacts."""

from __future__ import annotations

from collections.abc import Iterator

from a2a.types.a2a_pb2 import (
    ROLE_AGENT,
    ROLE_USER,
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_FAILED,
    TASK_STATE_INPUT_REQUIRED,
    TASK_STATE_WORKING,
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from hansei.client.plan_questions import format_question
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1.planner_service_pb2 import ExecutionSummary

STATES: dict[int, TaskState] = {
    pb.EXECUTION_STATUS_RUNNING: TASK_STATE_WORKING,
    pb.EXECUTION_STATUS_PAUSED: TASK_STATE_INPUT_REQUIRED,
    pb.EXECUTION_STATUS_SUCCESS: TASK_STATE_COMPLETED,
    pb.EXECUTION_STATUS_PARTIAL: TASK_STATE_COMPLETED,
    pb.EXECUTION_STATUS_FAILED: TASK_STATE_FAILED,
    pb.EXECUTION_STATUS_CANCELLED: TASK_STATE_CANCELED,
}
_UNFINISHED = (pb.EXECUTION_STATUS_RUNNING, pb.EXECUTION_STATUS_PAUSED)


def is_finished(execution: pb.Execution) -> bool:
    """Return whether an execution has ended."""
    return execution.status not in _UNFINISHED


def build_task(execution: pb.Execution, history_length: int | None = None, *, with_artifacts: bool = True) -> Task:
    """Return an execution as a task; its context has the same id."""
    task_id = execution.execution_id
    status = TaskStatus(state=STATES[execution.status], timestamp=_get_last_change(execution))
    if text := _format_status_message(execution):
        status.message.CopyFrom(_build_message(task_id, f"{task_id}-{execution.sequence}", text))
    task = Task(id=task_id, context_id=task_id, status=status)
    if with_artifacts:
        task.artifacts.extend(_build_artifacts(execution))
    if history_length != 0:
        task.history.append(_build_query(task_id, execution.plan.original_query))
    return task


def build_listed_task(summary: ExecutionSummary, history_length: int | None) -> Task:
    """Return an execution in a list as a task without artifacts."""
    status = TaskStatus(state=STATES[summary.status], timestamp=summary.update_time)
    task = Task(id=summary.execution_id, context_id=summary.execution_id, status=status)
    if history_length != 0:
        task.history.append(_build_query(summary.execution_id, summary.original_query))
    return task


def build_updates(event: pb.ExecutionEvent) -> Iterator[TaskStatusUpdateEvent | TaskArtifactUpdateEvent]:
    """Yield what an event changes in the task: artifacts before the state that follows from them."""
    task_id = event.execution_id
    state, text = TASK_STATE_WORKING, ""
    match event.WhichOneof("event"):
        case "step_started":
            action = pb.Action.Name(event.step_started.action).removeprefix("ACTION_").lower()
            text = f"Step {event.step_started.step_id}: {action}"
        case "step_finished":
            if artifact := _build_step_artifact(event.step_finished.result):
                yield TaskArtifactUpdateEvent(task_id=task_id, context_id=task_id, artifact=artifact, last_chunk=True)
            return
        case "log":
            text = event.log.message
        case "intervention_requested":
            state, text = TASK_STATE_INPUT_REQUIRED, format_question(event.intervention_requested)
        case "intervention_answered":
            text = "The question was answered."
        case "finished":
            if artifact := _build_answer(event.finished):
                yield TaskArtifactUpdateEvent(task_id=task_id, context_id=task_id, artifact=artifact, last_chunk=True)
            state, text = STATES[event.finished.overall_status], event.finished.reason
        case _:
            return
    status = TaskStatus(state=state, timestamp=event.created_at)
    if text:
        status.message.CopyFrom(_build_message(task_id, f"{task_id}-{event.sequence}", text))
    yield TaskStatusUpdateEvent(task_id=task_id, context_id=task_id, status=status)


def _get_last_change(execution: pb.Execution) -> Timestamp:
    if execution.HasField("end_time"):
        return execution.end_time
    if execution.HasField("intervention_request"):
        return execution.intervention_request.created_at
    return max(
        [execution.start_time, *(result.created_at for result in execution.step_results)],
        key=lambda time: (time.seconds, time.nanos),
    )


def _format_status_message(execution: pb.Execution) -> str:
    if execution.HasField("intervention_request"):
        return format_question(execution.intervention_request, execution.step_results)
    return execution.result.reason


def _build_artifacts(execution: pb.Execution) -> Iterator[Artifact]:
    for result in execution.step_results:
        if artifact := _build_step_artifact(result):
            yield artifact
    if artifact := _build_answer(execution.result):
        yield artifact


def _build_step_artifact(result: pb.StepResult) -> Artifact | None:
    """Return the result of a step; None if it has no output."""
    if not result.output:
        return None
    metadata = Struct()
    metadata.update({"confidence": result.confidence, "sources": list(result.sources)})
    return Artifact(
        artifact_id=f"step-{result.step_id}",
        name=f"Result of step {result.step_id}",
        parts=[Part(text=result.output)],
        metadata=metadata,
    )


def _build_answer(result: pb.ExecutionResult) -> Artifact | None:
    """Return the answer of an execution; None if it has none."""
    if not result.final_answer:
        return None
    metadata = Struct()
    metadata.update({"confidence": result.overall_confidence})
    return Artifact(artifact_id="answer", name="Answer", parts=[Part(text=result.final_answer)], metadata=metadata)


def _build_query(task_id: str, query: str) -> Message:
    message = _build_message(task_id, f"{task_id}-0", query)
    message.role = ROLE_USER
    return message


def _build_message(task_id: str, message_id: str, text: str) -> Message:
    return Message(message_id=message_id, task_id=task_id, context_id=task_id, role=ROLE_AGENT, parts=[Part(text=text)])
