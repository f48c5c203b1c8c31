"""Test whether the trajectories in which a predicate fires fail more often, with tasks as independent units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from libs.guards.exact_tests import Stratum, compute_exact_p_values
from libs.guards.guard_trajectory import GuardTrajectory

_Counts = tuple[int, int, NDArray[np.int64], NDArray[np.int64]]


def compute_p_values(
    trajectories: Sequence[GuardTrajectory], fires: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the p-value of each predicate, and the smallest p-value that its counts can reach.

    `fires` has a row for each trajectory. Tasks of one domain are compared with each other: a task counts once, as
    failed and as firing if at least half of its trajectories are. Where tasks have several trajectories, the
    trajectories of each task are also compared with each other; the predicate gets twice the lesser of both p-values.
    """
    failed = np.array([not trajectory.is_success for trajectory in trajectories])
    tasks: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, trajectory in enumerate(trajectories):
        tasks[trajectory.domain, trajectory.task_id].append(position)
    between = _count_by_domain(tasks, failed, fires)
    within = [_count(failed[rows], fires[rows]) for rows in tasks.values() if len(rows) > 1]
    p_values, least = _compute_all_p_values(between, fires.shape[1])
    if within:
        other_p_values, other_least = _compute_all_p_values(within, fires.shape[1])
        p_values = np.minimum(1.0, 2 * np.minimum(p_values, other_p_values))
        least = np.minimum(1.0, 2 * np.minimum(least, other_least))
    return p_values, least


def _count_by_domain(
    tasks: dict[tuple[str, str], list[int]], failed: NDArray[np.bool_], fires: NDArray[np.bool_]
) -> list[_Counts]:
    domains: dict[str, list[list[int]]] = defaultdict(list)
    for (domain, _), rows in tasks.items():
        domains[domain].append(rows)
    return [
        _count(
            np.array([failed[rows].mean() >= 0.5 for rows in groups]),
            np.array([fires[rows].mean(axis=0) >= 0.5 for rows in groups]),
        )
        for groups in domains.values()
    ]


def _count(failed: NDArray[np.bool_], fires: NDArray[np.bool_]) -> _Counts:
    return len(failed), int(failed.sum()), fires.sum(axis=0), fires[failed].sum(axis=0)


def _compute_all_p_values(
    strata: Sequence[_Counts], predicates: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    tested: dict[tuple[tuple[int, int], ...], tuple[float, float]] = {}
    results = np.ones((predicates, 2))
    for predicate in range(predicates):
        key = tuple((int(firing[predicate]), int(failed[predicate])) for _, _, firing, failed in strata)
        if key not in tested:
            tested[key] = compute_exact_p_values(
                [Stratum(units, failures, *counts) for (units, failures, _, _), counts in zip(strata, key, strict=True)]
            )
        results[predicate] = tested[key]
    return results[:, 0], results[:, 1]
