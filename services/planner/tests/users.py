"""Simulated users: how the confidence of their steps relates to the truth, and how they label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class User:
    """`draw(rng, n)` gives scores and the probability that each step is right; `flips` is the share of wrong labels.

    `delay` is the number of decisions after which a label comes at most; labels of wrong steps come last.
    """

    draw: Callable[[np.random.Generator, int], tuple[Floats, Floats]]
    flips: float = 0.0
    delay: int = 0

    def steps(self, rng: np.random.Generator, n: int) -> tuple[Floats, Bools, Bools, NDArray[np.int64]]:
        """Scores, whether each step is wrong, whether it is labelled wrong, and when its label comes."""
        scores, right = self.draw(rng, n)
        wrong = rng.random(n) >= right
        labelled = wrong ^ (rng.random(n) < self.flips)
        late = np.where(labelled, self.delay, rng.integers(0, self.delay // 2 + 1, n))
        return scores, wrong, labelled, np.arange(n) + late


def _true_probabilities(rng: np.random.Generator, n: int) -> Floats:
    return rng.beta(6, 1.2, n)


def _overconfident_scores(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    scores = _true_probabilities(rng, n)
    return scores, np.clip(scores - 0.12, 0, 1)


def _underconfident_scores(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    scores = _true_probabilities(rng, n)
    return scores, 1 - (1 - scores) ** 1.8


def _noisy_scores(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    right = _true_probabilities(rng, n)
    return np.clip(right + rng.normal(0, 0.15, n), 0, 1), right


def _coarse_scores(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    right = _true_probabilities(rng, n)
    return np.round(right, 1), right


def _calibrated_scores(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    scores = _true_probabilities(rng, n)
    return scores, scores


USERS = {
    "overconfident": User(_overconfident_scores),
    "underconfident": User(_underconfident_scores),
    "noisy": User(_noisy_scores),
    "coarse": User(_coarse_scores),
    "wrong labels": User(_calibrated_scores, flips=0.05),
    "delayed labels": User(_calibrated_scores, delay=60),
}


def true_errors(user: User, candidates: tuple[float, ...], n: int = 400_000) -> dict[float, float]:
    """Return R(t) of each candidate, estimated with this number of steps."""
    scores, right = user.draw(np.random.default_rng(0), n)
    return {t: float(np.mean(1 - right[scores >= t])) for t in candidates}
