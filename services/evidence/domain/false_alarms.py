"""Evidence about the rate of false alarms, valid at every look.

Each passing session has a false alarm with some probability. If it is at least `limit`, the product of the likelihood
ratios of a smaller rate and the limit is a supermartingale, and so is the mean of such products over several rates. It
ever reaches 1 / error with probability at most error (Ville). The same holds from the other side. The products depend
only on the numbers of sessions and of alarms, so no session is read again.
"""

from __future__ import annotations

from math import exp, inf, log, log1p

SMALLER_RATES = (0.0, 0.25, 0.5)
"""The rates that are compared with the limit to show that it is kept, as shares of the limit."""
LARGER_RATES = (1.5, 2.5, 5.0, 10.0)
"""The rates that are compared with the limit to show that it is exceeded."""


def compute_evidence_below(passed: int, alarms: int, limit: float) -> float:
    """Return the logarithm of the evidence that the rate of false alarms is below the limit."""
    return _compute_mean(passed, alarms, limit, SMALLER_RATES)


def compute_evidence_above(passed: int, alarms: int, limit: float) -> float:
    """Return the logarithm of the evidence that the rate of false alarms is above the limit."""
    return _compute_mean(passed, alarms, limit, LARGER_RATES)


def _compute_mean(passed: int, alarms: int, limit: float, shares: tuple[float, ...]) -> float:
    logs = [_compute_ratio(passed, alarms, limit, share * limit) for share in shares if share * limit < 1.0]
    largest = max(logs)
    return largest + log(sum(exp(value - largest) for value in logs) / len(logs)) if largest > -inf else -inf


def _compute_ratio(passed: int, alarms: int, limit: float, rate: float) -> float:
    if alarms and not rate:
        return -inf
    return (passed - alarms) * (log1p(-rate) - log1p(-limit)) + (alarms * log(rate / limit) if alarms else 0.0)
