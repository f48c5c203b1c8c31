"""Count the calls of recorded trajectories that guards foresee: of `examples/`, and of the files of benchmarks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from allinone.guard_trajectories import read_guard_trajectories
from bench.report import HERE
from chassis.targets.target import Target
from libs.guards.guard_trajectory import GuardTrajectory, Replay, TrajectoryCall, TrajectoryMessage, matches
from libs.guards.repairs import select_repairs
from libs.trajectories.actions import ToolUse, extract_actions
from libs.trajectories.events import list_events
from services.reflector.adapters.importers.files import read_trajectories

EXAMPLES = HERE.parent / "examples" / "trajectories"
FILES = ("state_bench.jsonl", "tau_retail.jsonl", "tau_bench_airline.jsonl")


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


class ExampleCall(NamedTuple):
    """A call of an example, and those targets that match it which the other examples support.

    `is_repaired`: another example has its error and repaired it; `is_confirmed`: one of these others succeeded.
    """

    example: RecordedExample
    action: ToolUse
    call: TrajectoryCall
    firings: tuple[str, ...]
    is_repaired: bool
    is_confirmed: bool


def check_calls() -> Iterator[ExampleCall]:
    """Yield every call of the examples."""
    examples = [read_example(file) for file in sorted(EXAMPLES.glob("*.json"))]
    for example in examples:
        others = [other for other in examples if other is not example]
        repaired = {kind for other in others for kind in _list_repaired_errors(other.actions)}
        passing = [other for other in others if other.trajectory.is_success]
        confirmed = {kind for other in passing for kind in _list_repaired_errors(other.actions)}
        targets = [Target(repair.target) for repair in select_repairs(other.trajectory for other in others)]
        replay = Replay(example.trajectory)
        for action, call in zip(example.actions, replay, strict=True):
            firings = tuple(target.source for target in targets if matches(target, call, replay))
            kind = action.error_kind
            yield ExampleCall(example, action, call, firings, kind in repaired, kind in confirmed)


def count_calls(checked: Iterable[ExampleCall]) -> dict[str, Counter[str]]:
    """Count the mistakes that another example repaired, and the correct calls, each with a firing before the call.

    There are two counts. `all`: a mistake is a failed call whose error signature another example has, in which the
    operation succeeded later; a correct call is one that did not fail. `known` leaves out what nobody can call a
    repeated mistake or a correct call:

    - the operation succeeded only in examples that failed: their check refuted the repair, for example a forced push
    - the user asks about the failing call itself, which then only reproduces the failure
    - a call that did not fail, in an example that failed: it may be the mistake that the check found
    """
    counts: dict[str, Counter[str]] = {"all": Counter(), "known": Counter()}
    for example, action, call, firings, is_repaired, is_confirmed in checked:
        fires = bool(firings)
        if action.error is None:
            counts["all"].update(correct=1, correct_with_firing=fires)
            if example.trajectory.is_success:
                counts["known"].update(correct=1, correct_with_firing=fires)
        elif is_repaired:
            counts["all"].update(mistakes=1, mistakes_with_firing=fires)
            if is_confirmed and not _is_asked_about(call, example.trajectory):
                counts["known"].update(mistakes=1, mistakes_with_firing=fires)
    return counts


def describe_firings(checked: Iterable[ExampleCall]) -> list[dict[str, Any]]:
    """Return the calls that did not fail and had a firing, with the outcome of their trajectories."""
    return [
        {
            "trajectory": example.trajectory.id,
            "succeeded": example.trajectory.is_success,
            "call": call.request.args,
            "targets": firings,
        }
        for example, action, call, firings, *_ in checked
        if action.error is None and firings
    ]


def _list_repaired_errors(actions: Sequence[ToolUse]) -> list[str]:
    return [
        action.error_kind
        for position, action in enumerate(actions)
        if action.error is not None
        and any(later.is_success and later.operation == action.operation for later in actions[position + 1 :])
    ]


def _is_asked_about(call: TrajectoryCall, trajectory: GuardTrajectory) -> bool:
    """Return whether a message of the user contains the command of a call."""
    texts = [event.text for event in trajectory.events if isinstance(event, TrajectoryMessage) and event.role == "user"]
    return any(call.request.args.get("command", "\0") in text for text in texts)


def count_firings_in_files(folder: Path, divisions: int = 3) -> dict[str, Counter[str]]:
    """Count the failed and the correct calls of recorded trajectories with a firing of guards of other tasks.

    The tasks of each file are halved at random several times; each half is checked with the guards that the other one
    supports. There are no labels of repeated mistakes, so a failed call counts whatever its error was.
    """
    counts: dict[str, Counter[str]] = {}
    for name in FILES:
        trajectories = read_guard_trajectories(folder / name)
        tasks = sorted({trajectory.task_id for trajectory in trajectories})
        count = counts[name] = Counter()
        for seed in range(divisions):
            half = set(random.Random(seed).sample(tasks, len(tasks) // 2))
            for is_first in (True, False):
                learned = [trajectory for trajectory in trajectories if (trajectory.task_id in half) is is_first]
                tested = [trajectory for trajectory in trajectories if (trajectory.task_id in half) is not is_first]
                targets = [Target(repair.target) for repair in select_repairs(learned)]
                for trajectory in tested:
                    replay = Replay(trajectory)
                    for call in replay:
                        fires = any(matches(target, call, replay) for target in targets)
                        label = "mistakes" if call.error else "correct"
                        count.update({label: 1, f"{label}_with_firing": fires})
    return counts
