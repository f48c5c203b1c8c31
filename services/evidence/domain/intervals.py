"""The interval of an effect: a confidence sequence that bets, valid at every look.

With a coin of probability p, the score S = (A - p)(Y - m) / (p (1 - p)) of a session has the effect as its mean for
every constant m, whatever the base rate does. If the effect is at most e, the product of 1 + b (S - e) over sessions is
a supermartingale for every bet b > 0, and so is the mean of such products over many bets and centres m: by Ville's
inequality it reaches 2 / error with probability at most error / 2. The lower bound is the largest e at which it has.
The upper bound is that of the negated scores (Waudby-Smith and Ramdas 2024, section 4.1, with a mixture in place of
predictable bets).

A score has only four values, by arm and outcome, so the four sums of `EffectStatistics` are all that the interval
needs. A reward between 0 and 1 counts in part as a success and in part as a failure: as the logarithm is concave, this
makes the product smaller, never larger.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.evidence.domain.effects import EffectStatistics, Value

CENTRES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
"""The constants m."""
BET_SHARES = 2.0 ** -np.arange(9)
"""The bets, as shares of the largest one that keeps every factor positive."""
BISECTIONS = 14
"""Halvings of -1..1 until a bound is exact to 0.0002."""

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """The bounds of an effect that is the same in all sessions, at all times with the probability of the interval."""

    lower: Value
    upper: Value


def compute_interval(statistics: EffectStatistics, probability: float, error: float) -> Interval:
    """Return the interval of the effect, within -1..1, with probability 1 - `error` at all times together."""
    counts = _count_outcomes(statistics)
    bounds = [sign * _bisect(counts, probability, sign, error) for sign in (1.0, -1.0)]
    lower, upper = (bound if bound.ndim else float(bound) for bound in bounds)
    return Interval(lower, upper)


def is_within(statistics: EffectStatistics, probability: float, margin: float, error: float) -> bool:
    """Return whether the interval of one effect lies between minus and plus the margin."""
    counts = _count_outcomes(statistics)
    limit = np.log(2.0 / error)
    for sign in (1.0, -1.0):
        gains = _compute_edge_gains(probability, sign, -margin)
        # The mean of the products is at most the largest, which is quick to compute: every report asks this.
        if (gains @ counts).max() < limit or _sum_wealth(counts, gains) < limit:
            return False
    return True


def _count_outcomes(statistics: EffectStatistics) -> Floats:
    """Return successes and failures of the served, then of the others, in the last dimension."""
    served, served_total, withheld, withheld_total, _ = statistics
    return np.stack([served_total, served - served_total, withheld_total, withheld - withheld_total], axis=-1)


def _bisect(counts: Floats, probability: float, sign: float, error: float) -> Floats:
    """Return the largest effect, of the scores times `sign`, that is rejected as too small."""
    low, high = np.full(counts.shape[:-1], -1.0), np.full(counts.shape[:-1], 1.0)
    limit = np.log(2.0 / error)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        is_rejected = _compute_wealth(counts, probability, sign, middle) >= limit
        low, high = np.where(is_rejected, middle, low), np.where(is_rejected, high, middle)
    return low


def _compute_wealth(counts: Floats, probability: float, sign: float, effect: Floats) -> Floats:
    """Return the logarithm of the mean product of the bets against "the effect, times `sign`, is at most `effect`"."""
    return _sum_wealth(counts, _compute_gains(probability, sign, effect))


@lru_cache(maxsize=256)
def _compute_edge_gains(probability: float, sign: float, effect: float) -> Floats:
    """Return the gains at the edge of a margin, which every session asks for."""
    return _compute_gains(probability, sign, np.asarray(effect))


def _compute_gains(probability: float, sign: float, effect: Floats) -> Floats:
    """Return the logarithms of the factors, shape (…, centres, bets, outcomes)."""
    scores = sign * np.stack(
        [
            (1.0 - CENTRES) / probability,
            -CENTRES / probability,
            (CENTRES - 1.0) / (1.0 - probability),
            CENTRES / (1.0 - probability),
        ],
        axis=-1,
    )
    largest_bets = 1.0 / (1.0 - scores.min(axis=-1))
    bets = BET_SHARES * largest_bets[:, None]
    # The largest bet loses all at the worst score and the effect 1.
    with np.errstate(divide="ignore", invalid="ignore"):
        gains: Floats = np.log1p(bets[:, :, None] * (scores[:, None, :] - effect[..., None, None, None]))
    return gains


def _sum_wealth(counts: Floats, gains: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        products = np.where(counts[..., None, None, :] > 0.0, gains * counts[..., None, None, :], 0.0).sum(axis=-1)
    products = products.reshape(*products.shape[:-2], -1)
    largest = products.max(axis=-1)
    result: Floats = largest + np.log(np.exp(products - largest[..., None]).mean(axis=-1))
    return result
