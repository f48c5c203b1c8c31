"""Scores attribution against human labels, beside one-line baselines (`hansei eval blame`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.reflector.domain.actions import ToolUse, extract_actions
from services.reflector.domain.attribution import find_most_blamed
from services.reflector.domain.recorded_trajectory import LabelledTrajectory
from services.reflector.domain.trajectory import Step


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The shares, 0 to 1, of the trajectories whose labelled step and labelled agent were found."""

    step_accuracy: float
    agent_accuracy: float


@dataclass(frozen=True, slots=True)
class BlameScores:
    """The scores of the rules over ``n`` trajectories, and those of each baseline."""

    n: int
    step_accuracy: float
    agent_accuracy: float
    baselines: Mapping[str, Accuracy]


Rule = Callable[[Sequence[Step], Sequence[ToolUse]], Step]
"""A function that returns the blamed step of one trajectory, given its steps (at least one) and its actions."""


def evaluate_blame(runs: Sequence[LabelledTrajectory]) -> BlameScores:
    """Return the scores over `runs`; all 0 for an empty list. A trajectory without steps counts as wrong."""
    own = _compute_accuracy(runs, _attribute_by_rules)
    baselines = {name: _compute_accuracy(runs, rule) for name, rule in _BASELINES.items()}
    return BlameScores(len(runs), own.step_accuracy, own.agent_accuracy, baselines)


def _compute_accuracy(runs: Sequence[LabelledTrajectory], rule: Rule) -> Accuracy:
    steps = agents = 0
    for run in runs:
        if run.trajectory.steps:
            blamed = rule(run.trajectory.steps, extract_actions(run.trajectory.steps))
            steps += blamed.index == run.step
            agents += blamed.speaker == run.agent
    count = max(1, len(runs))
    return Accuracy(steps / count, agents / count)


def _attribute_by_rules(steps: Sequence[Step], actions: Sequence[ToolUse]) -> Step:
    candidate = find_most_blamed(steps, actions)
    return candidate.step if candidate is not None else steps[0]


def _turn_before_first_error(steps: Sequence[Step], actions: Sequence[ToolUse]) -> Step:
    failed = next((action for action in actions if action.error is not None), None)
    return steps[max(0, failed.last_step - 1)] if failed is not None else steps[0]


_BASELINES: Mapping[str, Rule] = {
    "turn_before_first_error": _turn_before_first_error,
    "first_turn": lambda steps, _: steps[0],
    "second_turn": lambda steps, _: steps[min(1, len(steps) - 1)],
    "last_turn": lambda steps, _: steps[-1],
}
