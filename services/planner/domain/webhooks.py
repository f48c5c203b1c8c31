"""Webhooks of executions, and the messages that they get: A2A 1.0, `StreamResponse` with a `statusUpdate`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.planner.domain.events import (
    Event,
    ExecutionFinished,
    ExecutionStarted,
    InterventionAnswered,
    InterventionRequested,
    RecordedEvent,
)
from services.planner.domain.results import OverallStatus

MAX_WEBHOOKS = 10
"""Webhooks of one execution."""
_STATE_CHANGES = (ExecutionStarted, InterventionRequested, InterventionAnswered, ExecutionFinished)
_WORKING, _INPUT_REQUIRED = "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"
_ENDS = {
    OverallStatus.SUCCESS: "TASK_STATE_COMPLETED",
    OverallStatus.PARTIAL: "TASK_STATE_COMPLETED",
    OverallStatus.FAILED: "TASK_STATE_FAILED",
    OverallStatus.CANCELLED: "TASK_STATE_CANCELED",
}


@dataclass(frozen=True, slots=True)
class ExecutionWebhook:
    """A URL that gets the changes of the state of an execution after the event `sent_sequence`."""

    execution_id: str
    webhook_id: str
    url: str
    token: str = ""
    authorization: str = ""
    sent_sequence: int = 0
    changed_at: datetime | None = None
    """The time of the last change of state since the webhook exists, else the time of its creation."""


def changes_state(event: Event) -> bool:
    """Return whether an event changes the state of its execution: running, waiting for an answer, or ended."""
    return isinstance(event, _STATE_CHANGES)


def build_state_message(execution_id: str, recorded: RecordedEvent) -> dict[str, Any]:
    """Return the message about an event that changes the state. It has no answer token."""
    state, text = _describe_state(recorded.event)
    status: dict[str, Any] = {"state": state, "timestamp": recorded.created_at.isoformat()}
    if text:
        status["message"] = {
            "messageId": f"{execution_id}-{recorded.sequence}",
            "taskId": execution_id,
            "contextId": execution_id,
            "role": "ROLE_AGENT",
            "parts": [{"text": text}],
        }
    return {"statusUpdate": {"taskId": execution_id, "contextId": execution_id, "status": status}}


def _describe_state(event: Event) -> tuple[str, str]:
    """Return the state after an event, and its text: the question, or the reason of an early end."""
    match event:
        case InterventionRequested():
            return _INPUT_REQUIRED, event.request.question or event.request.message
        case ExecutionFinished():
            return _ENDS[event.result.overall_status], event.result.reason or ""
    return _WORKING, ""
