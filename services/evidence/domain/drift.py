"""Notice that a proven bullet does not help any more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from services.evidence.domain.effects import Value, compute_score

SHIFT = 0.2
"""The loss of success that the detector is made for."""
MEMORY = 0.01
"""Weight of one session in the running success rate: a hundred sessions."""
ALARM_EVIDENCE = np.log(100.0)
"""Evidence at which a proven bullet goes back on trial."""
_RATE_BOUNDS = 0.02, 0.98


class DriftStatistics(NamedTuple):
    """The running success rate, and the logarithm of the evidence that serving harms, since its last minimum."""

    rate: Value = 0.5
    alarm: Value = 0.0


def watch(statistics: DriftStatistics, served: Value, probability: Value, outcome: Value) -> DriftStatistics:
    """Return the statistics with one more session.

    A CUSUM of betting scores (Shin, Ramdas and Rinaldo 2024, e-detectors): the bet says that serving costs `SHIFT`,
    and its expectation is at most 1 while serving does not harm.
    """
    low, high = _RATE_BOUNDS
    rate_served = np.clip(statistics.rate - SHIFT * (1.0 - probability), low, high)
    rate_withheld = np.clip(statistics.rate + SHIFT * probability, low, high)
    return DriftStatistics(
        statistics.rate + MEMORY * (outcome - statistics.rate),
        np.maximum(statistics.alarm, 0.0) + compute_score(rate_served, rate_withheld, served, probability, outcome),
    )
