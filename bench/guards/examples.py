"""Count the repeated mistakes in the recorded trajectories of `examples/` that guards foresee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.report import HERE
from chassis.targets.target import Target
from libs.guards.guard_trajectory import GuardTrajectory, Replay, matches
from libs.guards.repairs import select_repairs
from libs.trajectories.actions import ToolUse, extract_actions
from libs.trajectories.events import list_events
from services.reflector.adapters.importers.files import read_trajectories

EXAMPLES = HERE.parent / "examples" / "trajectories"


class RecordedExample(NamedTuple):
    """A recorded trajectory: its calls with the signatures of their errors, and its replay."""

    actions: Sequence[ToolUse]
    trajectory: GuardTrajectory


def read_example(file: Path) -> RecordedExample:
    """Return the trajectory of a file."""
    recorded = read_trajectories(file.read_bytes(), "examples").trajectories[0].trajectory
    events = list_events(recorded.transcript)
    return RecordedExample(
        extract_actions(recorded.transcript),
        GuardTrajectory(recorded.id, recorded.id, recorded.status == "success", events),
    )


def count_calls() -> Counter[str]:
    """Count the mistakes that another example repaired, and the correct calls, each with a firing before the call.

    A mistake is a failed call whose error signature another example has, in which the operation succeeded later. The
    guards are those that the other examples support.
    """
    examples = [read_example(file) for file in sorted(EXAMPLES.glob("*.json"))]
    counts: Counter[str] = Counter()
    for example in examples:
        others = [other for other in examples if other is not example]
        repaired = {kind for other in others for kind in _list_repaired_errors(other.actions)}
        targets = [Target(repair.target) for repair in select_repairs(other.trajectory for other in others)]
        replay = Replay(example.trajectory)
        for action, call in zip(example.actions, replay, strict=True):
            fires = any(matches(target, call, replay) for target in targets)
            if action.error is None:
                counts.update(correct=1, correct_with_firing=fires)
            elif action.error_kind in repaired:
                counts.update(mistakes=1, mistakes_with_firing=fires)
    return counts


def _list_repaired_errors(actions: Sequence[ToolUse]) -> list[str]:
    return [
        action.error_kind
        for position, action in enumerate(actions)
        if action.error is not None
        and any(later.is_success and later.operation == action.operation for later in actions[position + 1 :])
    ]
