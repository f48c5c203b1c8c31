"""Measure mined guards on other trajectories than they were mined from, and compare them with trivial rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from libs.guards.baselines import extract_features, fit_baseline_rules
from libs.guards.exact_tests import find_interval
from libs.guards.firings import NEVER, FiringTable, build_firing_table
from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.mining import MiningResult, assign_folds, mine_guards

FOLDS = 10
REPEATS = 5
"""Random divisions into folds; the figures are means over them."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class _Firings:
    """Flags by repeat and trajectory: a guard fires; one fires no later than the first wrong write, if it is known."""

    fires: NDArray[np.bool_]
    in_time: NDArray[np.bool_]


def evaluate_guards(train: Sequence[GuardTrajectory], test: Sequence[GuardTrajectory] | None = None) -> dict[str, Any]:
    """Return coverage and false alarms of guards that are mined without a model, as a document.

    Guards are mined from `train` and tested on `test`; without it, the tasks of `train` are tested in random folds,
    each with guards mined from the other tasks, and all figures are means over several divisions into folds. `coverage`
    is the share of failing trajectories with a firing, `false_alarms` that of passing trajectories; `by_domain` has
    both with exact 95 % intervals and the counts of each division, and under `all` those of all domains.
    """
    trajectories = [*train, *(test or ())]
    table = build_firing_table(trajectories)
    features = [extract_features(trajectory) for trajectory in trajectories]
    divisions = [split_trajectories(train, test, repeat) for repeat in range(REPEATS if test is None else 1)]
    shape = len(divisions), len(trajectories)
    guards = _Firings(np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool))
    baselines: dict[str, NDArray[np.bool_]] = {}
    accepted: Counter[str] = Counter()
    results: list[MiningResult] = []
    for repeat, splits in enumerate(divisions):
        for training, testing in splits:
            result = mine_guards(trajectories, table, training)
            results.append(result)
            accepted.update(guard.predicate.source for guard in result.guards)
            _fire(table, trajectories, result, testing, repeat, guards)
            rules = fit_baseline_rules([trajectories[row] for row in training], [features[row] for row in training])
            for name, rule in rules.items():
                fires = baselines.setdefault(name, np.zeros(shape, dtype=bool))
                fires[repeat, testing] = [rule(features[row]) for row in testing]
    tested = sorted({row for _, testing in divisions[0] for row in testing})
    tested_trajectories = [trajectories[row] for row in tested]
    by_domain = describe_domains(tested_trajectories, guards.fires[:, tested], guards.in_time[:, tested])
    whole = results[0] if test is not None else mine_guards(trajectories, table, range(len(train)))
    by_domain[ALL] |= {"predicates_tried": whole.tried, "tests_counted": whole.counted, "folds": len(results)}
    return {
        "coverage": by_domain[ALL]["coverage"],
        "false_alarms": by_domain[ALL]["false_alarms"],
        "guards": _describe_guards(whole, train, accepted),
        "by_domain": by_domain,
        "baselines": {
            name: _describe_baseline(tested_trajectories, fires[:, tested]) for name, fires in baselines.items()
        },
    }


def split_trajectories(
    train: Sequence[GuardTrajectory], test: Sequence[GuardTrajectory] | None, repeat: int
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Return the rows to mine from and to test on: one split with a test file, else folds over tasks."""
    if test is not None:
        return [(range(len(train)), range(len(train), len(train) + len(test)))]
    # Folds in which failures were spread evenly gave better figures than new trajectories would.
    folds = assign_folds(train, FOLDS, repeat)
    return [
        (
            [row for row in range(len(train)) if folds[row] != fold],
            [row for row in range(len(train)) if folds[row] == fold],
        )
        for fold in sorted(set(folds))
    ]


def _fire(
    table: FiringTable,
    trajectories: Sequence[GuardTrajectory],
    result: MiningResult,
    testing: Sequence[int],
    repeat: int,
    firings: _Firings,
) -> None:
    columns = [guard.column for guard in result.guards]
    for row in testing:
        first = min((int(table.first[row, column]) for column in columns), default=int(NEVER))
        wrong_step = trajectories[row].wrong_step
        firings.fires[repeat, row] = first != NEVER
        firings.in_time[repeat, row] = first != NEVER and (wrong_step is None or first <= wrong_step)


def describe_domains(
    trajectories: Sequence[GuardTrajectory], fires: NDArray[np.bool_], in_time: NDArray[np.bool_]
) -> dict[str, dict[str, Any]]:
    """Return coverage and false alarms by domain and in all, each with counts and its interval."""
    domains = sorted({trajectory.domain for trajectory in trajectories} - {""})
    described: dict[str, dict[str, Any]] = {}
    for domain in [*domains, ALL]:
        rows = [row for row, trajectory in enumerate(trajectories) if domain in (ALL, trajectory.domain)]
        failed = [row for row in rows if not trajectories[row].is_success]
        passed = [row for row in rows if trajectories[row].is_success]
        labelled = [row for row in failed if trajectories[row].wrong_step is not None]
        described[domain] = {
            **_describe_share("coverage", fires[:, failed].sum(axis=1), len(failed)),
            **_describe_share("false_alarms", fires[:, passed].sum(axis=1), len(passed)),
            "coverage_before_wrong_step": float(in_time[:, labelled].mean()) if labelled else None,
        }
    return described


def _describe_share(name: str, counts: NDArray[np.int64], trajectories: int) -> dict[str, Any]:
    """Return the mean share of the repeats, with the interval of the mean count and the count of each repeat."""
    firing = float(counts.mean())
    low, high = find_interval(round(firing), trajectories)
    return {
        name: firing / trajectories if trajectories else 0.0,
        f"{name}_low": low,
        f"{name}_high": high,
        f"{name}_firing": firing,
        f"{name}_firing_by_repeat": counts.tolist(),
        f"{name}_trajectories": trajectories,
    }


def _describe_baseline(trajectories: Sequence[GuardTrajectory], fires: NDArray[np.bool_]) -> dict[str, Any]:
    by_domain = describe_domains(trajectories, fires, fires)
    return {
        "coverage": by_domain[ALL]["coverage"],
        "false_alarms": by_domain[ALL]["false_alarms"],
        "by_domain": by_domain,
    }


def _describe_guards(
    result: MiningResult, train: Sequence[GuardTrajectory], accepted: Counter[str]
) -> list[dict[str, Any]]:
    passed = sum(trajectory.is_success for trajectory in train)
    return [
        {
            "target": guard.predicate.source,
            "kind": guard.predicate.kind,
            "p_value": guard.p_value,
            "failed_firing": guard.failed_firing,
            "failed_trajectories": len(train) - passed,
            "passed_firing": guard.passed_firing,
            "passed_trajectories": passed,
            "false_alarm_bound": guard.false_alarm_bound,
            "folds": accepted[guard.predicate.source],
        }
        for guard in result.guards
    ]
