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
LARGEST_BET = 0.5
"""The bound c of the bets of the interval."""

Value = Any
"""A float, or a NumPy array of floats."""


class EffectStatistics(NamedTuple):
    """Sums over the sessions of one comparison; enough to continue, so that no session is read again.

    ``evidence`` is the logarithm of the test martingale. The last five are those of the interval (`update`).
    """

    served: Value = 0.0
    served_total: Value = 0.0
    withheld: Value = 0.0
    withheld_total: Value = 0.0
    evidence: Value = 0.0
    bets: Value = 0.0
    bet_scores: Value = 0.0
    penalty: Value = 0.0
    score_total: Value = 0.5
    score_deviation: Value = 0.25


class Interval(NamedTuple):
    """A confidence sequence's interval: the average effect is inside at all times with its probability."""

    lower: Value
    upper: Value


def estimate_rates(statistics: EffectStatistics) -> tuple[Value, Value, Value]:
    """Return the rates of success when served, when withheld, and of both, shrunken towards the last one."""
    sessions = statistics.served + statistics.withheld
    pooled = (statistics.served_total + statistics.withheld_total + 0.5) / (sessions + 1.0)
    served = (statistics.served_total + PSEUDO_COUNTS * pooled) / (statistics.served + PSEUDO_COUNTS)
    withheld = (statistics.withheld_total + PSEUDO_COUNTS * pooled) / (statistics.withheld + PSEUDO_COUNTS)
    return served, withheld, pooled


def update(
    statistics: EffectStatistics, served: Value, probability: Value, outcome: Value, error: float
) -> EffectStatistics:
    """Return the statistics with one more session.

    `served` is 1 or 0, `probability` that of serving, the same in all sessions of one comparison; `outcome` is in
    0..1. `error` is that of the interval, for the width of its bets.

    The martingale is multiplied by q_A(Y) / (p q_1(Y) + (1 - p) q_0(Y)), whose expectation over the coin is 1 if
    serving changes nothing, for any q that earlier sessions determine. The interval is the predictable plug-in
    empirical-Bernstein confidence sequence (Waudby-Smith and Ramdas 2024, Theorem 2) of the score
    (A - p)(Y - m) / (p (1 - p)), which is scaled to 0..1 and has the effect as its mean.
    """
    rate_served, rate_withheld, pooled = estimate_rates(statistics)
    likelihood_served = _likelihood(rate_served, outcome)
    likelihood_withheld = _likelihood(rate_withheld, outcome)
    observed = served * likelihood_served + (1.0 - served) * likelihood_withheld
    expected = probability * likelihood_served + (1.0 - probability) * likelihood_withheld

    count = statistics.served + statistics.withheld + 1.0
    score = (served - probability) * (outcome - pooled) / (probability * (1.0 - probability))
    scaled = 0.5 + 0.5 * score / largest_score(probability)
    mean, variance = statistics.score_total / count, statistics.score_deviation / count
    bet = np.minimum(np.sqrt(2.0 * np.log(2.0 / error) / (variance * count * np.log(1.0 + count))), LARGEST_BET)
    score_total = statistics.score_total + scaled
    return EffectStatistics(
        statistics.served + served,
        statistics.served_total + served * outcome,
        statistics.withheld + (1.0 - served),
        statistics.withheld_total + (1.0 - served) * outcome,
        statistics.evidence + np.log(observed / expected),
        statistics.bets + bet,
        statistics.bet_scores + bet * scaled,
        statistics.penalty + (scaled - mean) ** 2 * (-np.log(1.0 - bet) - bet),
        score_total,
        statistics.score_deviation + (scaled - score_total / (count + 1.0)) ** 2,
    )


def estimate_effect(statistics: EffectStatistics) -> Value:
    """Return the difference of the success rates, served minus withheld; 0 until both have a session."""
    served = statistics.served_total / np.maximum(statistics.served, 1.0)
    withheld = statistics.withheld_total / np.maximum(statistics.withheld, 1.0)
    return np.where((statistics.served > 0) & (statistics.withheld > 0), served - withheld, 0.0)


def compute_interval(statistics: EffectStatistics, probability: Value, error: float) -> Interval:
    """Return the interval of the average effect, within -1..1; it covers at all times with probability 1 - `error`."""
    bets = np.maximum(statistics.bets, 1e-12)
    middle = statistics.bet_scores / bets
    half = (np.log(2.0 / error) + statistics.penalty) / bets
    scale = 2.0 * largest_score(probability)
    return Interval(
        np.clip((middle - half - 0.5) * scale, -1.0, 1.0), np.clip((middle + half - 0.5) * scale, -1.0, 1.0)
    )


def largest_score(probability: Value) -> Value:
    """Return the bound of the score's absolute value."""
    return 1.0 / np.minimum(probability, 1.0 - probability)


def _likelihood(rate: Value, outcome: Value) -> Value:
    return rate * outcome + (1.0 - rate) * (1.0 - outcome)
