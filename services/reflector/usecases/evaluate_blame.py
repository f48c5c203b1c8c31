"""Scores attribution against human labels, and those of one-line baselines (`hansei eval blame`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.domain.attribution import find_writing_calls, rank_candidates
from services.reflector.domain.recorded_trajectory import LabelledTrajectory
from services.reflector.domain.trajectory import Step


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares, 0 to 1, of the trajectories.

    The step is the labelled one, the agent is the labelled one, the step is any that people called wrong, or the
    labelled step is among the first three candidates. ``top_3`` is None for a rule that names one step.
    """

    step_accuracy: float
    agent_accuracy: float
    any_labelled_failure: float
    top_3: float | None = None


@dataclass(frozen=True, slots=True)
class BlameScores(Accuracy):
    """The scores of the rules over ``n`` trajectories, and those of each baseline."""

    n: int = 0
    baselines: Mapping[str, Accuracy] = field(default_factory=dict)


Rule = Callable[[Sequence[Step], Sequence[ToolUse]], Step]
"""A function that returns the blamed step of one trajectory, given its steps (at least one) and its actions."""
Ranking = Callable[[Sequence[Step], Sequence[ToolUse]], Sequence[Step]]
"""A function that returns the steps of one trajectory that may be to blame, most probable first, at least one."""


def evaluate_blame(trajectories: Sequence[LabelledTrajectory]) -> BlameScores:
    """Return the scores over `trajectories`; all 0 for an empty list. A trajectory without steps counts as wrong."""
    own = compute_accuracy(trajectories, _rank_by_rules)
    baselines = {
        name: replace(compute_accuracy(trajectories, _name_one(rule)), top_3=None) for name, rule in _RULES.items()
    }
    return BlameScores(**asdict(own), n=len(trajectories), baselines=baselines)


def compute_accuracy(trajectories: Sequence[LabelledTrajectory], rank: Ranking) -> Accuracy:
    """Return the scores of a ranking; all 0 for an empty list."""
    found = [
        (labelled, rank(labelled.trajectory.steps, extract_actions(labelled.trajectory.steps)))
        for labelled in trajectories
        if labelled.trajectory.steps
    ]
    count = max(1, len(trajectories))
    return Accuracy(
        step_accuracy=sum(ranked[0].index == labelled.step for labelled, ranked in found) / count,
        agent_accuracy=sum(ranked[0].speaker == labelled.agent for labelled, ranked in found) / count,
        any_labelled_failure=sum(ranked[0].index in labelled.failures for labelled, ranked in found) / count,
        top_3=sum(labelled.step in [step.index for step in ranked[:3]] for labelled, ranked in found) / count,
    )


def _rank_by_rules(steps: Sequence[Step], actions: Sequence[ToolUse]) -> Sequence[Step]:
    return [candidate.step for candidate, _ in rank_candidates(steps, actions)] or steps[:1]


def _name_one(rule: Rule) -> Ranking:
    return lambda steps, actions: [rule(steps, actions)]


def _first_turn_of_busiest_agent(steps: Sequence[Step], actions: Sequence[ToolUse]) -> Step:
    turns = [step for step in steps if step.role == "assistant"]
    busiest = Counter(step.speaker for step in turns).most_common(1)
    return next(step for step in turns if step.speaker == busiest[0][0]) if turns else steps[0]


def _first_writing_call(steps: Sequence[Step], actions: Sequence[ToolUse]) -> Step:
    return steps[next(iter(find_writing_calls(steps, actions)), 0)]


def _turn_before_first_error(steps: Sequence[Step], actions: Sequence[ToolUse]) -> Step:
    failed = next((action for action in actions if action.error is not None), None)
    return steps[max(0, failed.last_step - 1)] if failed is not None else steps[0]


_RULES: Mapping[str, Rule] = {
    "turn_before_first_error": _turn_before_first_error,
    "first_turn": lambda steps, _: steps[0],
    "second_turn": lambda steps, _: steps[min(1, len(steps) - 1)],
    "last_turn": lambda steps, _: steps[-1],
    "first_turn_of_busiest_agent": _first_turn_of_busiest_agent,
    "first_writing_call": _first_writing_call,
}
