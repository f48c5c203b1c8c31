"""Build recorded trajectories for tests."""

from __future__ import annotations

from typing import Any

from chassis.targets.session import ToolCallRequest
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall, TrajectoryMessage


def call(step: int, tool: str, error: str = "", result: Any = None, /, **arguments: Any) -> TrajectoryCall:
    """Return a call with its result, or with an error."""
    return TrajectoryCall(step, ToolCallRequest(tool, arguments), error or result or {"status": "done"}, error)


def build_trajectory(
    name: str, *calls: TrajectoryCall, is_success: bool = True, request: str = "Please help.", domain: str = ""
) -> GuardTrajectory:
    """Return a trajectory of a task of its own: a request of the user, then the calls."""
    return GuardTrajectory(name, name, is_success, (TrajectoryMessage(0, "user", request), *calls), domain)
