"""An interval for the mean of repeated scores that is valid after every sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

PRIOR_PRECISION = 0.1
"""Squared c of the mixture below; small, so that few samples already give finite intervals."""

ROUNDING_VARIANCE = 1 / 12
"""Judges answer in whole points (Sheppard's correction); equal answers do not mean that the mean is known exactly."""


def compute_mean_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval of the mean of scores from 0 to 100 that is valid after every sample.

    A confidence sequence for a Gaussian mean of unknown variance: all means whose t-statistic mixture (right Haar prior
    on sigma, N(0, 1/c^2) on mean/sigma) stays below 1/alpha. By Ville's inequality it covers the mean at all times at
    once, so stopping as soon as it is narrow is allowed (Lai 1976; Perez-Ortiz et al. 2024; Wang and Ramdas 2025).
    With fewer than two samples it is 0 to 100.
    """
    count = len(samples)
    if count < 2:
        return 0.0, 100.0
    mean = math.fsum(samples) / count
    variance = math.fsum((sample - mean) ** 2 for sample in samples) / count + ROUNDING_VARIANCE
    spread = count + PRIOR_PRECISION
    growth = (math.sqrt(spread / PRIOR_PRECISION) / (1 - confidence)) ** (2 / count)
    denominator = 1 - growth * PRIOR_PRECISION / spread
    if denominator <= 0:
        return 0.0, 100.0
    half_width = math.sqrt(variance * (growth - 1) / denominator)
    return max(0.0, mean - half_width), min(100.0, mean + half_width)
