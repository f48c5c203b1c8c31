"""Measure guards of two sources together: mined ones, and targets that were written before any outcome was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chassis.targets.target import Target
from libs.guards.evaluation import ALL, REPEATS, describe_domains, split_trajectories
from libs.guards.exact_tests import find_upper_bound
from libs.guards.firings import build_firing_table, find_firings
from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.mining import MiningPolicy, mine_guards


def evaluate_sources(
    train: Sequence[GuardTrajectory],
    targets: Sequence[str],
    test: Sequence[GuardTrajectory] | None = None,
    policy: MiningPolicy | None = None,
) -> dict[str, Any]:
    """Return coverage and false alarms of a model's targets, of mined guards and of both, as a document.

    The folds are those of `evaluate_guards`. In each of them, a target is used if it passes the backtest on the
    training trajectories: it fires in a failing trajectory, the upper bound of its false alarms is small enough, and so
    is the share of passing trajectories in which any accepted target fires. `unfiltered` has all targets of the
    model, without a backtest.
    """
    limits = policy or MiningPolicy()
    trajectories = [*train, *(test or ())]
    table = build_firing_table(trajectories)
    is_written = _build_firing_matrix(trajectories, targets)
    failed = np.array([not trajectory.is_success for trajectory in trajectories])
    divisions = [split_trajectories(train, test, repeat) for repeat in range(REPEATS if test is None else 1)]
    fires = {name: np.zeros((len(divisions), len(trajectories)), dtype=bool) for name in ("written", "mined", "both")}
    accepted: Counter[str] = Counter()
    for repeat, splits in enumerate(divisions):
        for training, testing in splits:
            columns = [guard.column for guard in mine_guards(trajectories, table, training, policy).guards]
            mined = np.asarray(table.fires[:, columns].any(axis=1), dtype=bool)
            rows, learned = list(testing), list(training)
            alone = select_written(is_written[learned], failed[learned], table.fires[learned][:, []], limits)
            added = select_written(is_written[learned], failed[learned], table.fires[learned][:, columns], limits)
            accepted.update(targets[column] for column in added)
            fires["mined"][repeat, rows] = mined[rows]
            fires["written"][repeat, rows] = is_written[rows][:, alone].any(axis=1)
            fires["both"][repeat, rows] = mined[rows] | is_written[rows][:, added].any(axis=1)
    fires["unfiltered"] = np.broadcast_to(is_written.any(axis=1), fires["both"].shape)
    tested = sorted({row for _, testing in divisions[0] for row in testing})
    tested_trajectories = [trajectories[row] for row in tested]
    by_source = {
        name: describe_domains(tested_trajectories, found[:, tested], found[:, tested]) for name, found in fires.items()
    }
    return {
        "coverage": by_source["both"][ALL]["coverage"],
        "false_alarms": by_source["both"][ALL]["false_alarms"],
        "by_source": by_source,
        "targets": [{"target": target, "folds": accepted[target]} for target in targets],
        "folds": sum(len(splits) for splits in divisions),
    }


def select_written(
    fires: NDArray[np.bool_], failed: NDArray[np.bool_], mined: NDArray[np.bool_], limits: MiningPolicy
) -> list[int]:
    """Return the columns of the written targets that stand a backtest on these trajectories, the best first.

    `mined` has a column for each guard that is in use already; the limit of all false alarms includes them. No test of
    significance is needed: the targets were written without the outcomes, so none of them was chosen by chance.
    """
    passed, covered = int((~failed).sum()), np.asarray(mined.any(axis=1), dtype=bool)
    counts = [(int(fires[failed, c].sum()), int(fires[~failed, c].sum()), c) for c in range(fires.shape[1])]
    candidates = [
        (failing, passing, column)
        for failing, passing, column in counts
        if failing and find_upper_bound(passing, passed) <= limits.largest_false_alarm_bound
    ]
    chosen: list[int] = []
    for _, _, column in sorted(candidates, key=lambda item: (-item[0] / (1 + item[1]), item[2])):
        together = covered | fires[:, column]
        if limits.allows(mined.shape[1] + len(chosen) + 1, int(together[~failed].sum()), passed):
            covered = together
            chosen.append(column)
    return chosen


def _build_firing_matrix(trajectories: Sequence[GuardTrajectory], targets: Sequence[str]) -> NDArray[np.bool_]:
    """Return whether each target fires in each trajectory; shape (trajectories, targets)."""
    compiled = [Target(source) for source in targets]
    found = [[bool(find_firings(target, trajectory)) for target in compiled] for trajectory in trajectories]
    return np.array(found, dtype=bool).reshape(len(trajectories), len(targets))
