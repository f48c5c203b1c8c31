"""The effect of serving, tested and estimated session by session.

A session that would have been served a bullet is served it with a known probability. Given the outcomes, only this coin
is random if serving changes nothing; so the test needs no assumption on base rates, drift or the difficulty of tasks.

All values are floats, or NumPy arrays of equal shape for many comparisons at once; `bench.evidence` simulates with
these functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

PSEUDO_COUNTS = 4.0
"""Observations at the pooled rate that each arm's rate begins with."""

Value = Any
"""A float, or a NumPy array of floats."""


class EffectStatistics(NamedTuple):
    """Sums over the sessions of one comparison; enough to continue, so that no session is read again.

    ``served_total`` and ``withheld_total`` are sums of outcomes; ``evidence`` is the logarithm of the test martingale.
    """

    served: Value = 0.0
    served_total: Value = 0.0
    withheld: Value = 0.0
    withheld_total: Value = 0.0
    evidence: Value = 0.0


def estimate_rates(statistics: EffectStatistics) -> tuple[Value, Value, Value]:
    """Return the rates of success when served, when withheld, and of both, shrunken towards the last one."""
    sessions = statistics.served + statistics.withheld
    pooled = (statistics.served_total + statistics.withheld_total + 0.5) / (sessions + 1.0)
    served = (statistics.served_total + PSEUDO_COUNTS * pooled) / (statistics.served + PSEUDO_COUNTS)
    withheld = (statistics.withheld_total + PSEUDO_COUNTS * pooled) / (statistics.withheld + PSEUDO_COUNTS)
    return served, withheld, pooled


def update(statistics: EffectStatistics, served: Value, probability: Value, outcome: Value) -> EffectStatistics:
    """Return the statistics with one more session.

    `served` is 1 or 0, `probability` that of serving, the same in all sessions of one comparison; `outcome` is in 0..1.

    The martingale is multiplied by q_A(Y) / (p q_1(Y) + (1 - p) q_0(Y)), whose expectation over the coin is 1 if
    serving changes nothing, for any q that earlier sessions determine.
    """
    rate_served, rate_withheld, _ = estimate_rates(statistics)
    return EffectStatistics(
        statistics.served + served,
        statistics.served_total + served * outcome,
        statistics.withheld + (1.0 - served),
        statistics.withheld_total + (1.0 - served) * outcome,
        statistics.evidence + compute_score(rate_served, rate_withheld, served, probability, outcome),
    )


def compute_score(rate_served: Value, rate_withheld: Value, served: Value, probability: Value, outcome: Value) -> Value:
    """Return the logarithm of the likelihood of an outcome in its arm, relative to its expectation over the coin."""
    likelihood_served = _compute_likelihood(rate_served, outcome)
    likelihood_withheld = _compute_likelihood(rate_withheld, outcome)
    observed = served * likelihood_served + (1.0 - served) * likelihood_withheld
    expected = probability * likelihood_served + (1.0 - probability) * likelihood_withheld
    return np.log(observed / expected)


def estimate_effect(statistics: EffectStatistics) -> Value:
    """Return the difference of the success rates, served minus withheld; 0 until both have a session."""
    served = statistics.served_total / np.maximum(statistics.served, 1.0)
    withheld = statistics.withheld_total / np.maximum(statistics.withheld, 1.0)
    return np.where((statistics.served > 0) & (statistics.withheld > 0), served - withheld, 0.0)


def _compute_likelihood(rate: Value, outcome: Value) -> Value:
    return rate * outcome + (1.0 - rate) * (1.0 - outcome)
