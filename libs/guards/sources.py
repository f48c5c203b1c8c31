"""Measure guards of two sources together: mined ones, and targets that a model wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chassis.targets.target import Target
from libs.guards.evaluation import ALL, REPEATS, describe_domains, split_trajectories
from libs.guards.exact_tests import find_upper_bound
from libs.guards.firings import build_firing_table
from libs.guards.guard_trajectory import GuardTrajectory, Replay, matches
from libs.guards.mining import DEFAULT_LIMITS, MiningPolicy, mine_guards


@dataclass(frozen=True, slots=True)
class WrittenTarget:
    """A target that a model wrote: from the policy of a domain, or from a failed trajectory of the task."""

    source: str
    domain: str = ""
    task_id: str = ""

    def is_about(self, trajectory: GuardTrajectory) -> bool:
        """Return whether the target was written from a trajectory of the task of this one."""
        return self.task_id != "" and (self.domain, self.task_id) == (trajectory.domain, trajectory.task_id)


def evaluate_sources(
    train: Sequence[GuardTrajectory],
    targets: Sequence[WrittenTarget],
    test: Sequence[GuardTrajectory] | None = None,
) -> dict[str, Any]:
    """Return coverage and false alarms of a model's targets, of mined guards and of both, as a document.

    The folds are those of `evaluate_guards`. In each of them, a target is used if it was not written from a task of the
    test part and passes the backtest on the training trajectories: it fires in failing trajectories of other tasks than
    its own, the upper bound of its false alarms is small enough, and so is the share of passing trajectories in which
    any accepted target fires. `unfiltered` has all targets of the model, without a backtest, each on all tasks but its
    own.
    """
    trajectories = [*train, *(test or ())]
    table = build_firing_table(trajectories)
    failed = np.array([not trajectory.is_success for trajectory in trajectories])
    is_own = np.array([[target.is_about(trajectory) for target in targets] for trajectory in trajectories], dtype=bool)
    is_own = is_own.reshape(len(trajectories), len(targets))
    is_written = _build_firing_matrix(trajectories, targets)
    # A target fires by construction in the failure that it was written from, which is no evidence for it.
    is_written &= ~(is_own & failed[:, None])
    divisions = [split_trajectories(train, test, repeat) for repeat in range(REPEATS if test is None else 1)]
    fires = {name: np.zeros((len(divisions), len(trajectories)), dtype=bool) for name in ("written", "mined", "both")}
    accepted: Counter[int] = Counter()
    for repeat, splits in enumerate(divisions):
        for training, testing in splits:
            guards = mine_guards(trajectories, table, training).guards
            columns = np.array([guard.column for guard in guards], dtype=np.intp)
            mined = np.asarray(table.fires[:, columns].any(axis=1), dtype=bool)
            rows, learned = np.array(testing, dtype=np.intp), np.array(training, dtype=np.intp)
            usable = np.flatnonzero(~is_own[rows].any(axis=0))
            fitted, in_use = is_written[np.ix_(learned, usable)], table.fires[np.ix_(learned, columns)]
            alone = usable[select_written(fitted, failed[learned], in_use[:, :0])]
            added = usable[select_written(fitted, failed[learned], in_use)]
            accepted.update(added.tolist())
            fires["mined"][repeat, rows] = mined[rows]
            fires["written"][repeat, rows] = is_written[np.ix_(rows, alone)].any(axis=1)
            fires["both"][repeat, rows] = mined[rows] | is_written[np.ix_(rows, added)].any(axis=1)
    fires["unfiltered"] = np.broadcast_to((is_written & ~is_own).any(axis=1), fires["both"].shape)
    tested = sorted({row for _, testing in divisions[0] for row in testing})
    tested_trajectories = [trajectories[row] for row in tested]
    by_source = {
        name: describe_domains(tested_trajectories, found[:, tested], found[:, tested]) for name, found in fires.items()
    }
    return {
        "coverage": by_source["both"][ALL]["coverage"],
        "false_alarms": by_source["both"][ALL]["false_alarms"],
        "by_source": by_source,
        "targets": [
            {"target": target.source, "domain": target.domain, "task": target.task_id, "folds": accepted[column]}
            for column, target in enumerate(targets)
        ],
        "folds": sum(len(splits) for splits in divisions),
    }


def select_written(
    fires: NDArray[np.bool_],
    failed: NDArray[np.bool_],
    mined: NDArray[np.bool_],
    limits: MiningPolicy = DEFAULT_LIMITS,
) -> list[int]:
    """Return the columns of the written targets that pass a backtest on these trajectories, the best first.

    `mined` has a column for each guard that is in use already; the limit of all false alarms includes them. No test of
    significance is needed: no target was chosen by the outcomes in `fires`. The target is accepted first that adds most
    failing trajectories for each false alarm that it adds; one that adds no failing trajectory is left out.
    """
    passed = int((~failed).sum())
    candidates = [
        column
        for column in range(fires.shape[1])
        if find_upper_bound(int(fires[~failed, column].sum()), passed) <= limits.largest_false_alarm_bound
    ]
    covered = np.asarray(mined.any(axis=1), dtype=bool)
    chosen: list[int] = []
    while candidates:
        added = fires[:, candidates] & ~covered[:, None]
        gains = added[failed].sum(axis=0) / (1 + added[~failed].sum(axis=0))
        best = candidates.pop(int(gains.argmax()))
        if not gains.max():
            break
        together = covered | fires[:, best]
        if limits.allows(mined.shape[1] + len(chosen) + 1, int(together[~failed].sum()), passed):
            covered = together
            chosen.append(best)
    return chosen


def _build_firing_matrix(
    trajectories: Sequence[GuardTrajectory], targets: Sequence[WrittenTarget]
) -> NDArray[np.bool_]:
    """Return whether each target fires in each trajectory; shape (trajectories, targets). A trajectory is read once."""
    compiled = [Target(target.source) for target in targets]
    fires = np.zeros((len(trajectories), len(targets)), dtype=bool)
    for row, trajectory in enumerate(trajectories):
        replay = Replay(trajectory)
        for call in replay:
            for column in np.flatnonzero(~fires[row]):
                fires[row, column] = matches(compiled[column], call, replay)
    return fires
