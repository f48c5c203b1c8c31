"""Scores attribution against people's labels, beside rules of one line (`hansei eval blame`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.reflector.domain.actions import Action, actions_of
from services.reflector.domain.attribution import most_blamed
from services.reflector.domain.recorded_run import LabelledRun
from services.reflector.domain.trajectory import Step


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares, 0 to 1, of the runs whose step and whose agent were named as people did."""

    step_accuracy: float
    agent_accuracy: float


@dataclass(frozen=True, slots=True)
class BlameScores:
    """How well the rules blame over ``n`` runs, and how well each baseline does on the same ones."""

    n: int
    step_accuracy: float
    agent_accuracy: float
    baselines: Mapping[str, Accuracy]


Rule = Callable[[Sequence[Step], Sequence[Action]], Step]
"""Names the step to blame. Both arguments belong to one run; there is at least one step."""


def evaluate_blame(runs: Sequence[LabelledRun]) -> BlameScores:
    """The scores over `runs`; all 0 if there are none. A run without steps counts as wrong."""
    own = _accuracy(runs, _by_the_rules)
    baselines = {name: _accuracy(runs, rule) for name, rule in _BASELINES.items()}
    return BlameScores(len(runs), own.step_accuracy, own.agent_accuracy, baselines)


def _accuracy(runs: Sequence[LabelledRun], rule: Rule) -> Accuracy:
    steps = agents = 0
    for run in runs:
        if run.trajectory.steps:
            blamed = rule(run.trajectory.steps, actions_of(run.trajectory.steps))
            steps += blamed.index == run.step
            agents += blamed.speaker == run.agent
    count = max(1, len(runs))
    return Accuracy(steps / count, agents / count)


def _by_the_rules(steps: Sequence[Step], actions: Sequence[Action]) -> Step:
    candidate = most_blamed(steps, actions)
    return candidate.step if candidate is not None else steps[0]


def _turn_before_first_error(steps: Sequence[Step], actions: Sequence[Action]) -> Step:
    failed = next((action for action in actions if action.error is not None), None)
    return steps[max(0, failed.last_step - 1)] if failed is not None else steps[0]


_BASELINES: Mapping[str, Rule] = {
    "turn_before_first_error": _turn_before_first_error,
    "first_turn": lambda steps, _: steps[0],
    "second_turn": lambda steps, _: steps[min(1, len(steps) - 1)],
    "last_turn": lambda steps, _: steps[-1],
}
