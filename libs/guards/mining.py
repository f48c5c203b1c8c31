"""Mine guards: predicates of the grammar that separate failed from passed trajectories, and stand a backtest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from libs.guards.association import compute_p_values
from libs.guards.exact_tests import find_upper_bound, select_discoveries
from libs.guards.firings import FiringTable, Predicate
from libs.guards.guard_trajectory import GuardTrajectory


@dataclass(frozen=True, slots=True)
class MiningPolicy:
    """The limits of acceptance; all are shares, 0 to 1."""

    false_discovery_rate: float = 0.05
    """The expected share of accepted predicates that have nothing to do with failure, over all predicates tried."""
    largest_false_alarm_bound: float = 0.05
    """The limit of the 95 % upper confidence bound of the share of passing trajectories in which a guard fires."""
    largest_false_alarms: float = 0.02
    """The limit of the estimated share of passing trajectories in which any accepted guard fires."""
    largest_added_p_value: float = 0.01
    """The limit of the p-value of a guard on the trajectories in which no guard that was accepted before fires."""

    def allows(self, guards: int, alarms: int, passed: int) -> bool:
        """Return whether guards that together fire in `alarms` of the `passed` trajectories may be accepted.

        The estimate is the mean of the posterior with Jeffreys' prior for each guard: half a false alarm more than the
        observed ones, because the trajectories that a guard was chosen on show too few of its false alarms.
        """
        return alarms + guards / 2 <= self.largest_false_alarms * (passed + 1)


DEFAULT_LIMITS = MiningPolicy()


@dataclass(frozen=True, slots=True)
class MinedGuard:
    """An accepted predicate with its backtest on the trajectories that it was mined from."""

    predicate: Predicate
    column: int
    p_value: float
    failed_firing: int
    passed_firing: int
    false_alarm_bound: float


@dataclass(frozen=True, slots=True)
class MiningResult:
    """The accepted guards, best first, and the size of the search.

    `tried` predicates fire in at least one trajectory; those that fire in the same trajectories are one test, and
    `counted` tests could be significant at all.
    """

    guards: tuple[MinedGuard, ...]
    tried: int
    counted: int


def mine_guards(
    trajectories: Sequence[GuardTrajectory],
    table: FiringTable,
    rows: Sequence[int],
    limits: MiningPolicy = DEFAULT_LIMITS,
) -> MiningResult:
    """Return the guards that the trajectories at `rows` support; `table` has a row for each of `trajectories`.

    1. Of the predicates that fire in the same trajectories, the simplest stands for all of them.
    2. Each is tested exactly, and the false discovery rate over all of them is controlled.
    3. Each discovery is backtested: the upper bound of its false alarms must be small.
    4. Guards are accepted one by one, the one first that adds most failing trajectories for each false alarm, and of
       equal ones the one with more conditions, as long as it adds significantly, and all together are estimated to
       raise few false alarms.
    """
    training = [trajectories[row] for row in rows]
    fires = table.fires[rows]
    columns = _select_patterns(table.predicates, fires)
    if not columns:
        return MiningResult((), 0, 0)
    p_values, least = compute_p_values(training, fires[:, columns])
    discoveries, counted = select_discoveries(p_values.tolist(), least.tolist(), limits.false_discovery_rate)
    failed = np.array([not trajectory.is_success for trajectory in training])
    candidates = [
        guard
        for index in discoveries
        if (guard := _backtest(table, fires, failed, columns[index], float(p_values[index]))).false_alarm_bound
        <= limits.largest_false_alarm_bound
    ]
    guards = _select_guards(training, fires, failed, candidates, limits)
    return MiningResult(tuple(guards), int(fires.any(axis=0).sum()), counted)


def assign_folds(trajectories: Sequence[GuardTrajectory], folds: int, division: int) -> list[int]:
    """Return the fold of each trajectory; the trajectories of a task are in one fold, and outcomes play no part."""
    tasks = sorted(
        {(trajectory.domain, trajectory.task_id) for trajectory in trajectories},
        key=lambda task: sha256(repr((division, *task)).encode()).digest(),
    )
    fold_of = {task: position % folds for position, task in enumerate(tasks)}
    return [fold_of[trajectory.domain, trajectory.task_id] for trajectory in trajectories]


def _select_patterns(predicates: Sequence[Predicate], fires: NDArray[np.bool_]) -> list[int]:
    order = sorted(
        range(len(predicates)), key=lambda column: (predicates[column].parts, len(predicates[column].source))
    )
    patterns: dict[bytes, int] = {}
    for column in order:
        if fires[:, column].any():
            patterns.setdefault(np.packbits(fires[:, column]).tobytes(), column)
    return list(patterns.values())


def _backtest(
    table: FiringTable, fires: NDArray[np.bool_], failed: NDArray[np.bool_], column: int, p_value: float
) -> MinedGuard:
    passed_firing = int(fires[~failed, column].sum())
    return MinedGuard(
        table.predicates[column],
        column,
        p_value,
        int(fires[failed, column].sum()),
        passed_firing,
        find_upper_bound(passed_firing, int((~failed).sum())),
    )


def _select_guards(
    trajectories: Sequence[GuardTrajectory],
    fires: NDArray[np.bool_],
    failed: NDArray[np.bool_],
    candidates: Sequence[MinedGuard],
    limits: MiningPolicy,
) -> list[MinedGuard]:
    accepted: list[MinedGuard] = []
    covered = np.zeros(len(trajectories), dtype=bool)
    passed = int((~failed).sum())
    while True:
        remaining = [trajectory for trajectory, is_covered in zip(trajectories, covered, strict=True) if not is_covered]
        best: tuple[tuple[float, float, int, int], MinedGuard] | None = None
        for guard in candidates:
            added = fires[:, guard.column] & ~covered
            added_failed, added_passed = int(added[failed].sum()), int(added[~failed].sum())
            alarms = int((covered | added)[~failed].sum())
            if not added_failed or not limits.allows(len(accepted) + 1, alarms, passed):
                continue
            p_value = float(compute_p_values(remaining, fires[~covered][:, [guard.column]])[0][0])
            key = (-added_failed / (1 + added_passed), p_value, -guard.predicate.parts, guard.column)
            if p_value <= limits.largest_added_p_value and (best is None or key < best[0]):
                best = key, guard
        if best is None:
            return accepted
        accepted.append(best[1])
        covered |= fires[:, best[1].column]
