"""Targets of lessons, from failures that the agent repaired inside a trajectory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chassis.targets.session import ToolCallRequest
from libs.guards.recorded_run import RecordedRun, RunCall, RunMessage
from libs.guards.repairs import RepairedFailure, select_repairs
from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.domain.reflection import Insight
from services.reflector.domain.trajectory import Step


def add_targets(insights: Sequence[Insight], steps: Sequence[Step]) -> tuple[Insight, ...]:
    """Return the insights, each with the target of the repaired failure that it rests on, if there is one."""
    # A target that a correct call of the same trajectory contradicts is left out.
    repairs = select_repairs([RecordedRun("", "", True, list_events(steps))])
    aimed: list[Insight] = []
    for insight in insights:
        repair = next((found for found in repairs if _rests_on(insight, found)), None)
        if repair is None:
            aimed.append(insight)
        else:
            repairs.remove(repair)
            aimed.append(insight.model_copy(update={"target": repair.target}))
    return tuple(aimed)


def _rests_on(insight: Insight, repair: RepairedFailure) -> bool:
    return not {repair.failed_step, repair.repaired_step}.isdisjoint(insight.steps)


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
