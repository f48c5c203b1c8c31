"""Exact tests, the false discovery rate, and intervals, against SciPy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from libs.guards.exact_tests import Stratum, compute_exact_p_values, find_interval, find_upper_bound, select_discoveries


@pytest.mark.parametrize(("failed_firing", "passed_firing"), [(0, 0), (4, 0), (3, 2), (7, 1), (11, 39)])
def test_one_stratum_is_the_test_of_fisher(failed_firing: int, passed_firing: int) -> None:
    firing = failed_firing + passed_firing
    table = [[failed_firing, passed_firing], [11 - failed_firing, 39 - passed_firing]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert compute_exact_p_values([Stratum(50, 11, firing, failed_firing)])[0] == pytest.approx(expected)


def test_strata_are_compared_only_within_themselves() -> None:
    # All trajectories of one domain fail and fire: that says nothing about the predicate.
    assert compute_exact_p_values([Stratum(20, 20, 20, 20), Stratum(20, 0, 0, 0)]) == (1.0, 1.0)
    assert compute_exact_p_values([Stratum(40, 20, 20, 20)])[0] < 1e-9


def test_two_strata_are_the_convolution_of_both() -> None:
    p_value, least = compute_exact_p_values([Stratum(4, 2, 2, 2), Stratum(4, 2, 2, 2)])
    assert p_value == least == pytest.approx(1 / 36)


def test_tests_that_cannot_be_significant_do_not_count() -> None:
    selected, counted = select_discoveries([0.001, 0.5, *[1.0] * 1000], [0.001, 0.02, *[0.5] * 1000], 0.05)
    assert (selected, counted) == ([0], 2)


def test_without_an_effect_a_discovery_is_rare() -> None:
    random = np.random.default_rng(7)
    found = 0
    for _ in range(200):
        failed = random.random(60) < 0.3
        fires = random.random((60, 50)) < 0.2
        pairs = [
            compute_exact_p_values([Stratum(60, int(failed.sum()), int(column.sum()), int(column[failed].sum()))])
            for column in fires.T
        ]
        found += bool(select_discoveries([pair[0] for pair in pairs], [pair[1] for pair in pairs], 0.05)[0])
    assert found <= 0.05 * 200 + 3 * (0.05 * 0.95 * 200) ** 0.5


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (2, 123), (12, 27)])
def test_intervals_are_those_of_clopper_and_pearson(successes: int, trials: int) -> None:
    expected = stats.binomtest(successes, trials).proportion_ci(method="exact")
    assert find_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)
    bound = stats.binomtest(successes, trials, alternative="less").proportion_ci(method="exact").high
    assert find_upper_bound(successes, trials) == pytest.approx(bound, abs=1e-9)


def test_no_trial_excludes_nothing() -> None:
    assert find_interval(0, 0) == (0.0, 1.0)
    assert find_upper_bound(0, 0) == 1.0
