"""How well the mean of repeated scores is known, at any time one likes to look."""

from __future__ import annotations

import math
from collections.abc import Sequence

PRIOR_PRECISION = 0.1
"""Squared c of the mixture below; small, so that few samples already give finite intervals."""

ROUNDING_VARIANCE = 1 / 12
"""Judges answer in whole points (Sheppard's correction); equal answers do not mean that the mean is known exactly."""


def mean_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of scores in 0 to 100 that may be looked at after every sample.

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
    room = 1 - growth * PRIOR_PRECISION / spread
    if room <= 0:
        return 0.0, 100.0
    half_width = math.sqrt(variance * (growth - 1) / room)
    return max(0.0, mean - half_width), min(100.0, mean + half_width)
