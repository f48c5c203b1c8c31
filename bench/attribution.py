"""Fit the weights of attribution on labelled logs and measure them (`services/reflector`).

`python -m bench.attribution FILE…` measures each file, a source with its own kind of logs, with the weights in use,
with weights fitted on nine tenths of its logs (ten-fold, several shuffles), with weights fitted on the other sources
only, and with one-line rules. Two variations of Who&When logs test whether the rules depend on their form:
`dispatched`, where a dispatcher with a ledger hands out every turn, and `browsed`, where twenty turns of a web browser
come first as well. The model is a conditional logit: within a log, the probability that a step is to blame is the
softmax of the weights of its signs (McFadden 1974). Seeds are fixed, so the figures are reproducible. A file that does
not exist is left out.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.lift.__main__ import calculate_wilson_interval
from bench.report import machine, write
from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.adapters.importers.labels import read_labelled
from services.reflector.domain.attribution import WEIGHTS, Candidate, find_candidates, rank_candidates
from services.reflector.domain.recorded_trajectory import LabelledTrajectory
from services.reflector.domain.trajectory import Role, Step
from services.reflector.usecases.evaluate_blame import Accuracy, Ranking, compute_accuracy, evaluate_blame

FOLDS = 10
SHUFFLES = 5
PENALTY = 2.0
"""Strength of the L2 penalty on the weights."""
_ROUNDS = 30

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A log as the fit sees it: the signs of each candidate (candidates x signs), and which one is labelled."""

    signs: Floats
    labelled: int | None
    labelled_trajectory: LabelledTrajectory


def build_case(labelled: LabelledTrajectory) -> Case:
    """Return the case of a labelled trajectory."""
    candidates = find_candidates(labelled.trajectory.steps, extract_actions(labelled.trajectory.steps))
    steps = [candidate.step.index for candidate in candidates]
    signs = np.array([build_row(candidate) for candidate in candidates])
    return Case(signs, steps.index(labelled.step) if labelled.step in steps else None, labelled)


def build_row(candidate: Candidate) -> list[float]:
    """Return the signs of a candidate as numbers, in the order of the weights."""
    return [float(sign in candidate.signs) for sign in WEIGHTS]


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


def rank_with(weights: Floats) -> Ranking:
    """Return the ranking of candidates by `weights`."""

    def rank(steps: Sequence[Step], actions: Sequence[ToolUse]) -> list[Step]:
        candidates = sorted(
            find_candidates(steps, actions), key=lambda candidate: -float(np.dot(build_row(candidate), weights))
        )
        return [candidate.step for candidate in candidates]

    return rank


def cross_validate(cases: Sequence[Case]) -> Accuracy:
    """Return the shares named right by weights that never saw the log, over all folds and shuffles."""
    found: list[tuple[int, Accuracy]] = []
    for seed in range(SHUFFLES):
        order = list(cases)
        random.Random(seed).shuffle(order)
        for fold in range(FOLDS):
            training = [case for index, case in enumerate(order) if index % FOLDS != fold]
            tested = [case.labelled_trajectory for case in order[fold::FOLDS]]
            found.append((len(tested), compute_accuracy(tested, rank_with(fit_weights(training)))))
    total = sum(count for count, _ in found)
    names = [field.name for field in fields(Accuracy)]
    return Accuracy(**{name: sum(count * getattr(part, name) for count, part in found) / total for name in names})


def add_dispatcher(labelled: LabelledTrajectory, opening: Sequence[Step] = ()) -> LabelledTrajectory:
    """Return the log with a question and `opening` first, and a dispatcher's ledger and order before every turn."""
    steps = [_turn("user", "human", labelled.trajectory.query), *opening]
    labelled_step = labelled.step
    for step in labelled.trajectory.steps:
        steps.append(_turn("assistant", "Dispatcher", f'{{"is_request_satisfied": false, "next": "{step.speaker}"}}'))
        steps.append(_turn("assistant", "Dispatcher", f"{step.speaker}, please continue and report."))
        if step.index == labelled.step:
            labelled_step = len(steps)
        steps.append(step)
    numbered = tuple(step.model_copy(update={"index": index}) for index, step in enumerate(steps))
    return replace(
        labelled,
        step=labelled_step,
        failures=frozenset({labelled_step}),
        trajectory=labelled.trajectory.model_copy(update={"steps": numbered}),
    )


def prepend_page_visits(labelled: LabelledTrajectory) -> LabelledTrajectory:
    """Return the trajectory with a dispatcher and twenty visited pages at its start."""
    opening: list[Step] = []
    for page in range(20):
        shown = f"I clicked 'link {page}'.\n\nHere is a screenshot of [page {page}](https://example.org). {37 * page}"
        opening += [_turn("assistant", "Dispatcher", "Open the next page."), _turn("assistant", "Browser", shown)]
    return add_dispatcher(labelled, opening)


def _turn(role: Role, name: str, content: str) -> Step:
    return Step(index=0, role=role, name=name, content=content)


def measure_source(name: str, sources: Mapping[str, Sequence[Case]]) -> list[dict[str, Any]]:
    """Return a row for each rule on the logs of one source."""
    labelled_trajectories = [case.labelled_trajectory for case in sources[name]]
    others = [case for other, cases in sources.items() if other != name for case in cases]
    scores = evaluate_blame(labelled_trajectories)
    found: dict[str, Accuracy] = {"weights in use": scores, "ten-fold": cross_validate(sources[name])}
    if others:
        found["fitted on the other source"] = compute_accuracy(labelled_trajectories, rank_with(fit_weights(others)))
    if not any(step.tool_calls for labelled in labelled_trajectories for step in labelled.trajectory.steps):
        found["weights in use, dispatched"] = evaluate_blame(
            [add_dispatcher(labelled) for labelled in labelled_trajectories]
        )
        found["weights in use, browsed"] = evaluate_blame(
            [prepend_page_visits(labelled) for labelled in labelled_trajectories]
        )
    return [
        build_result(name, len(labelled_trajectories), rule, accuracy)
        for rule, accuracy in (found | dict(scores.baselines)).items()
    ]


def build_result(name: str, count: int, rule: str, accuracy: Accuracy) -> dict[str, Any]:
    """Return the row of a rule, with the 95 % interval of the step."""
    low, high = calculate_wilson_interval(round(accuracy.step_accuracy * count), count)
    return {
        "logs": name,
        "rule": rule,
        "step": round(accuracy.step_accuracy, 3),
        "interval": f"{low:.2f}-{high:.2f}",
        "top 3": "-" if accuracy.top_3 is None else round(accuracy.top_3, 3),
        "any labelled failure": round(accuracy.any_labelled_failure, 3),
        "agent": round(accuracy.agent_accuracy, 3),
    }


def calculate_probability(labelled_trajectories: Sequence[LabelledTrajectory]) -> float:
    """Return the mean of the probabilities that the rules estimate for the steps that they blame."""
    ranked = [
        rank_candidates(labelled.trajectory.steps, extract_actions(labelled.trajectory.steps))
        for labelled in labelled_trajectories
    ]
    return sum(candidates[0][1] for candidates in ranked if candidates) / len(labelled_trajectories)


def main(files: Sequence[Path]) -> None:
    """Print and write the accuracy of attribution for the trajectories in `files`."""
    sources: dict[str, list[Case]] = {}
    for file in files:
        if file.exists():
            cases = [build_case(labelled) for labelled in read_labelled(file.read_bytes())]
            sources[file.stem] = [case for case in cases if len(case.signs)]
        else:
            print(f"{file} does not exist; left out")
    weights = fit_weights([case for cases in sources.values() for case in cases])
    results = {
        "machine": machine(),
        "logs": {name: len(cases) for name, cases in sources.items()},
        "fitted_weights": dict(zip(WEIGHTS, weights.round(2).tolist(), strict=True)),
        "mean_probability_of_the_blamed_step": {
            name: round(calculate_probability([case.labelled_trajectory for case in cases]), 3)
            for name, cases in sources.items()
        },
        "rows": [row for name in sources for row in measure_source(name, sources)],
    }
    write("attribution", results)
    print(json.dumps({name: value for name, value in results.items() if name != "rows"}, indent=2))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
