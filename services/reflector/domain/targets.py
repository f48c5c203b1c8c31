"""Targets of lessons, from failures that the agent repaired inside a trajectory."""

from __future__ import annotations

from collections.abc import Sequence

from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.repairs import select_repairs
from libs.trajectories.actions import ToolUse
from libs.trajectories.events import list_events
from services.reflector.domain.reflection import Insight
from services.reflector.domain.trajectory import Step


def add_targets(insights: Sequence[Insight], steps: Sequence[Step], actions: Sequence[ToolUse]) -> tuple[Insight, ...]:
    """Return the insights, each with the target of the repaired failure that it rests on, if there is one."""
    if not insights:
        return ()
    # A target that a correct call of the same trajectory contradicts is left out.
    trajectory = GuardTrajectory("", "", True, list_events(steps, actions))
    repairs = select_repairs([trajectory], {step for insight in insights for step in insight.steps})
    aimed: list[Insight] = []
    for insight in insights:
        repair = next((found for found in repairs if found.rests_on(insight.steps)), None)
        if repair is None:
            aimed.append(insight)
        else:
            repairs.remove(repair)
            aimed.append(insight.model_copy(update={"target": repair.target}))
    return tuple(aimed)
