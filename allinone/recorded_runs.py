"""Read files of trajectories as the recorded runs that guards are mined from and tested on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chassis.targets.session import ToolCallRequest
from libs.guards.recorded_run import RecordedRun, RunCall, RunMessage
from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.adapters.importers.labels import read_wrong_steps
from services.reflector.domain.trajectory import Step

_DATASET = "guards"


def read_runs(file: Path) -> list[RecordedRun]:
    """Return the runs of a file of any format of trajectories. Raises MalformedTrajectory, UnknownFormat."""
    content = file.read_bytes()
    trajectories = read_trajectories(content, _DATASET).runs
    wrong_steps = read_wrong_steps(content)
    if len(wrong_steps) != len(trajectories):
        wrong_steps = (None,) * len(trajectories)
    return [
        RecordedRun(
            id=recorded.trajectory.id,
            task_id=recorded.trajectory.task_id or recorded.trajectory.id,
            is_success=recorded.trajectory.status == "success",
            events=list_events(recorded.trajectory.transcript),
            domain=recorded.domain,
            wrong_step=wrong_step,
        )
        for recorded, wrong_step in zip(trajectories, wrong_steps, strict=True)
    ]


def list_events(steps: Sequence[Step]) -> tuple[RunMessage | RunCall, ...]:
    """Return the messages and the calls of a trajectory in order; a call holds its result."""
    actions = extract_actions(steps)
    results = {action.result_step for action in actions}
    calls: dict[int, list[ToolUse]] = {}
    for action in actions:
        calls.setdefault(action.call_step, []).append(action)
    events: list[RunMessage | RunCall] = []
    for step in steps:
        if step.content.strip() and step.index not in results and step.role != "tool":
            events.append(RunMessage(step.index, step.role, step.content))
        events.extend(_build_call(action) for action in calls.get(step.index, ()))
    return tuple(events)


def _build_call(action: ToolUse) -> RunCall:
    return RunCall(
        action.call_step,
        ToolCallRequest(action.tool, _parse_arguments(action.arguments)),
        action.output,
        action.message,
    )


def _parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; a text that is no JSON object is the argument `input`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict):
        return value
    return {"input": value} if value else {}
