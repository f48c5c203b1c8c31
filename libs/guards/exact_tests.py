"""Exact tests of predicates against outcomes, with control of the false discovery rate, and exact intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, exp, lgamma, log, log1p

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Stratum:
    """The counts of one stratum: independent units, those that failed, those in which the predicate fires, both."""

    units: int
    failed: int
    firing: int
    failed_firing: int


@lru_cache(maxsize=100_000)
def _hypergeometric(units: int, failed: int, firing: int) -> tuple[int, NDArray[np.float64]]:
    """Return the least number of failed firing units, and the probabilities of it and all larger ones."""
    least, most = max(0, firing - (units - failed)), min(failed, firing)
    total = comb(units, firing)
    return least, np.array([comb(failed, k) * comb(units - failed, firing - k) / total for k in range(least, most + 1)])


def compute_exact_p_values(strata: Sequence[Stratum]) -> tuple[float, float]:
    """Return the one-sided p-value of a predicate, and the smallest p-value that its strata can reach.

    The test is exact and conditional on the counts of each stratum, a Fisher test that is summed over strata: only
    units of the same stratum are compared, so a stratum with many failures gives no evidence by itself.
    """
    distribution, least, observed = np.ones(1), 0, 0
    for stratum in strata:
        if 0 < stratum.firing < stratum.units and 0 < stratum.failed < stratum.units:
            start, probabilities = _hypergeometric(stratum.units, stratum.failed, stratum.firing)
            distribution = np.convolve(distribution, probabilities)
            least += start
            observed += stratum.failed_firing
    return float(min(1.0, distribution[observed - least :].sum())), float(min(1.0, distribution[-1]))


def select_discoveries(
    p_values: Sequence[float], least_p_values: Sequence[float], rate: float
) -> tuple[list[int], int]:
    """Return the indices of the discoveries at a false discovery rate, and the number of tests that count.

    A discrete test whose least possible p-value is above the threshold can never be a discovery, so it does not count
    towards the number of tests (Tarone 1990, Gilbert 2005). That value depends on the counts alone, not on the
    outcomes of the trajectories in which the predicate fires. The rest is the procedure of Benjamini and Hochberg.
    """
    least = np.sort(np.asarray(least_p_values, dtype=float))
    tests = 1
    while tests < len(least) and int(np.searchsorted(least, rate / tests, side="right")) > tests:
        tests += 1
    counted = [index for index, value in enumerate(least_p_values) if value <= rate / tests]
    ordered = sorted(counted, key=lambda index: p_values[index])
    count = 0
    for rank, index in enumerate(ordered, 1):
        if p_values[index] <= rate * rank / max(1, len(ordered)):
            count = rank
    return ordered[:count], len(counted)


def find_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share (Clopper and Pearson 1934); (0, 1) without trials."""
    if not trials:
        return 0.0, 1.0
    half = 0.025
    lower = 0.0 if successes == 0 else _bisect(lambda p: 1.0 - _binomial_cdf(successes - 1, trials, p) - half)
    return lower, find_upper_bound(successes, trials, half)


def find_upper_bound(successes: int, trials: int, error: float = 0.05) -> float:
    """Return the exact one-sided upper confidence bound of a share; 1 without trials."""
    if successes >= trials:
        return 1.0
    return _bisect(lambda p: error - _binomial_cdf(successes, trials, p))


def _bisect(function: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


def _binomial_cdf(successes: int, trials: int, p: float) -> float:
    if p <= 0.0 or p >= 1.0:
        return 1.0 if p <= 0.0 or successes >= trials else 0.0
    logs = (
        lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) + k * log(p) + (trials - k) * log1p(-p)
        for k in range(successes + 1)
    )
    return min(1.0, sum(exp(value) for value in logs))
