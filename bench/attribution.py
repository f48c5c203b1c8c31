"""Fits the weights of attribution on labelled Who&When logs and cross-validates them (`services/reflector`).

`python -m bench.attribution FILE` prints the weights fitted on all logs, how often the rules in use name the labelled
step and agent, and how often weights fitted on nine tenths of the logs do so on the other tenth (ten-fold, several
shuffles). Two variations test whether the rules depend on the form of these logs: `dispatched`, where a dispatcher with
a ledger hands out every turn, and `browsed`, where twenty turns of a web browser come first as well. The model is a
conditional logit: within a log, the probability that a step is to blame is the softmax of the weights of its signs
(McFadden 1974). Seeds are fixed, so the figures are reproducible.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.report import machine, write
from services.reflector.adapters.importers.labels import read_labelled
from services.reflector.domain.actions import extract_actions
from services.reflector.domain.attribution import WEIGHTS, find_candidates
from services.reflector.domain.recorded_trajectory import LabelledTrajectory
from services.reflector.domain.trajectory import Role, Step
from services.reflector.usecases.evaluate_blame import Accuracy, BlameScores, evaluate_blame

FOLDS = 10
SHUFFLES = 5
PENALTY = 2.0
"""Strength of the L2 penalty on the weights."""
_ROUNDS = 30

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A log as the fit sees it: signs of each candidate (candidates x signs), which one is labelled, and the labels."""

    signs: Floats
    labelled: int | None
    steps: tuple[int, ...]
    agents: tuple[str, ...]
    run: LabelledTrajectory


def build_case(run: LabelledTrajectory) -> Case:
    """Return the case of a labelled run."""
    candidates = find_candidates(run.trajectory.steps, extract_actions(run.trajectory.steps))
    steps = tuple(candidate.step.index for candidate in candidates)
    signs = np.array([[float(sign in candidate.signs) for sign in WEIGHTS] for candidate in candidates])
    labelled = steps.index(run.step) if run.step in steps else None
    return Case(signs, labelled, steps, tuple(candidate.step.speaker for candidate in candidates), run)


def fit_weights(cases: Sequence[Case]) -> Floats:
    """Return the weights that make the labels most likely under the penalty, by Newton's method."""
    weights = np.zeros(len(WEIGHTS))
    for _ in range(_ROUNDS):
        gradient, curvature = PENALTY * weights, PENALTY * np.eye(len(WEIGHTS))
        for case in cases:
            if case.labelled is not None:
                share = np.exp(case.signs @ weights - (case.signs @ weights).max())
                share /= share.sum()
                mean = share @ case.signs
                gradient += mean - case.signs[case.labelled]
                curvature += case.signs.T @ (case.signs * share[:, None]) - np.outer(mean, mean)
        weights = weights - np.linalg.solve(curvature, gradient)
    return weights


def accuracy(cases: Sequence[Case], weights: Floats) -> tuple[int, int]:
    """Return the numbers of steps and of agents that `weights` name correctly."""
    best = [int(np.argmax(case.signs @ weights)) for case in cases]
    steps = sum(case.steps[candidate] == case.run.step for case, candidate in zip(cases, best, strict=True))
    agents = sum(case.agents[candidate] == case.run.agent for case, candidate in zip(cases, best, strict=True))
    return steps, agents


def cross_validate(cases: Sequence[Case]) -> Accuracy:
    """Shares named right by weights that never saw the log, over all folds and shuffles."""
    steps = agents = 0
    for seed in range(SHUFFLES):
        order = list(cases)
        random.Random(seed).shuffle(order)
        for fold in range(FOLDS):
            training = [case for index, case in enumerate(order) if index % FOLDS != fold]
            right = accuracy(order[fold::FOLDS], fit_weights(training))
            steps, agents = steps + right[0], agents + right[1]
    total = SHUFFLES * len(cases)
    return Accuracy(steps / total, agents / total)


def add_dispatcher(run: LabelledTrajectory, opening: Sequence[Step] = ()) -> LabelledTrajectory:
    """Return the log with a question and `opening` first, and a dispatcher's ledger and order before every turn."""
    steps = [_turn("user", "human", run.trajectory.query), *opening]
    labelled = run.step
    for step in run.trajectory.steps:
        steps.append(_turn("assistant", "Dispatcher", f'{{"is_request_satisfied": false, "next": "{step.speaker}"}}'))
        steps.append(_turn("assistant", "Dispatcher", f"{step.speaker}, please continue and report."))
        if step.index == run.step:
            labelled = len(steps)
        steps.append(step)
    numbered = tuple(step.model_copy(update={"index": index}) for index, step in enumerate(steps))
    return replace(run, step=labelled, trajectory=run.trajectory.model_copy(update={"steps": numbered}))


def add_pages(run: LabelledTrajectory) -> LabelledTrajectory:
    """Return the log of `add_dispatcher` with twenty visited pages first."""
    opening: list[Step] = []
    for page in range(20):
        shown = f"I clicked 'link {page}'.\n\nHere is a screenshot of [page {page}](https://example.org). {37 * page}"
        opening += [_turn("assistant", "Dispatcher", "Open the next page."), _turn("assistant", "Browser", shown)]
    return add_dispatcher(run, opening)


def _turn(role: Role, name: str, content: str) -> Step:
    return Step(index=0, role=role, name=name, content=content)


def main(file: Path) -> None:
    """Print and write the figures for the logs in `file`."""
    runs = read_labelled(file.read_bytes())
    cases = [case for run in runs if len((case := build_case(run)).steps)]
    scores, cross_validation = evaluate_blame(runs), cross_validate(cases)
    weights = dict(zip(WEIGHTS, fit_weights(cases).round(2).tolist(), strict=True))
    others = {"dispatched": evaluate_blame([add_dispatcher(run) for run in runs])}
    others["browsed"] = evaluate_blame([add_pages(run) for run in runs])
    all_scores: dict[str, Accuracy | BlameScores] = {"weights in use": scores, "ten-fold": cross_validation}
    all_scores |= {f"weights in use, {name}": variant for name, variant in others.items()}
    all_scores |= scores.baselines
    rows = [
        {"rule": rule, "step": round(found.step_accuracy, 3), "agent": round(found.agent_accuracy, 3)}
        for rule, found in all_scores.items()
    ]
    results = {"machine": machine(), "logs": len(runs), "fitted_weights": weights, "rows": rows}
    write("attribution", results)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
