"""The messages and the tool calls of a trajectory in order, as mining and backtests of guards read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from chassis.json_texts import parse_shallow_json
from chassis.targets.session import ToolCallRequest
from libs.guards.guard_trajectory import TrajectoryCall, TrajectoryMessage
from libs.trajectories.actions import ToolUse, TrajectoryStep, extract_actions

_ROLES: Mapping[str, Literal["user", "system", "assistant"]] = {
    "user": "user",
    "system": "system",
    "assistant": "assistant",
}


def list_events(
    steps: Sequence[TrajectoryStep], actions: Sequence[ToolUse] | None = None
) -> tuple[TrajectoryMessage | TrajectoryCall, ...]:
    """Return the messages and the calls of a trajectory in order; a call holds its result.

    `actions` are those of the steps, if they were extracted before.
    """
    if actions is None:
        actions = extract_actions(steps)
    results = {action.result_step for action in actions}
    calls: dict[int, list[ToolUse]] = {}
    for action in actions:
        calls.setdefault(action.call_step, []).append(action)
    events: list[TrajectoryMessage | TrajectoryCall] = []
    for step in steps:
        if step.content.strip() and step.index not in results and step.role in _ROLES:
            events.append(TrajectoryMessage(step.index, _ROLES[step.role], step.content))
        events.extend(_build_call(action) for action in calls.get(step.index, ()))
    return tuple(events)


def _build_call(action: ToolUse) -> TrajectoryCall:
    return TrajectoryCall(
        action.call_step,
        ToolCallRequest(action.tool, _parse_arguments(action.arguments)),
        action.output,
        action.message,
    )


def _parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; a text that is no JSON object, or nested too deeply, is the argument `input`."""
    try:
        value = parse_shallow_json(text)
    except ValueError:
        value = text
    if isinstance(value, dict):
        return value
    return {"input": value} if value else {}
