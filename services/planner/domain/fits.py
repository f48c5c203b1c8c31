"""Fit a calibration: Platt or isotonic, whichever predicts held-out labels better.

Platt scaling: J. Platt, "Probabilistic outputs for support vector machines", 1999, with its smoothed targets, on the
score or on its logit. Isotonic regression: pool adjacent violators, the share of each block drawn towards one half by
one label, interpolated between the centres of the blocks (Oron and Flournoy, "Centered isotonic regression", 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from services.planner.domain.calibration import UNCALIBRATED, Calibration, Kind

if TYPE_CHECKING:
    from services.planner.domain.calibration import Predict, Vector

    Fit = Callable[[Vector, Vector], Predict]

MIN_LABELS = 20
_FOLDS = 5
_EDGE = 1e-3
_NEWTON_STEPS = 50
_RIDGE = 1e-3


def fit_calibration(scores: Sequence[float], correct: Sequence[bool]) -> Calibration:
    """Return the fit with the least log loss over five folds; none below 20 labels or with labels of one kind."""
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if len(x) != len(y):
        raise ValueError(f"scores and labels must have the same length, got {len(x)} and {len(y)}")
    if len(x) < MIN_LABELS or y.min() == y.max():
        return UNCALIBRATED
    losses = [_compute_held_out_loss(fit, x, y) for _, fit in _FITS]
    kind, fit = _FITS[int(np.argmin(losses))]
    return Calibration(kind, min(losses), fit(x, y))


def compute_log_loss(predicted: Vector, correct: Vector) -> float:
    """Return the mean negative log likelihood of labels."""
    p = np.clip(predicted, _EDGE, 1 - _EDGE)
    return float(-np.mean(correct * np.log(p) + (1 - correct) * np.log(1 - p)))


def _compute_held_out_loss(fit: Fit, x: Vector, y: Vector) -> float:
    fold = np.arange(len(x)) % _FOLDS
    predicted = np.empty_like(x)
    for number in range(_FOLDS):
        is_held_out = fold == number
        predicted[is_held_out] = fit(x[~is_held_out], y[~is_held_out])(x[is_held_out])
    return compute_log_loss(predicted, y)


def _compute_logit(scores: Vector) -> Vector:
    p = np.clip(scores, _EDGE, 1 - _EDGE)
    return np.asarray(np.log(p / (1 - p)))


def _compute_sigmoid(z: Vector) -> Vector:
    return np.asarray(1 / (1 + np.exp(-np.clip(z, -30, 30))))


def _return_unchanged(scores: Vector) -> Vector:
    return scores


def _fit_platt(feature: Predict) -> Fit:
    """Return a logistic regression of smoothed labels on a feature of the score, by Newton's method."""

    def fit_feature(x: Vector, y: Vector) -> Predict:
        right = y.sum()
        target = np.where(y > 0, (right + 1) / (right + 2), 1 / (len(y) - right + 2))
        design = np.stack([feature(x), np.ones_like(x)], axis=1)
        weights = np.array([1.0, 0.0])
        for _ in range(_NEWTON_STEPS):
            p = _compute_sigmoid(design @ weights)
            gradient = design.T @ (p - target) + _RIDGE * weights
            curvature = (design * (p * (1 - p))[:, None]).T @ design + _RIDGE * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            weights = weights - step
            if float(np.abs(step).max()) < 1e-9:
                break
        slope, offset = max(0.0, float(weights[0])), float(weights[1])
        return lambda scores: _compute_sigmoid(slope * feature(scores) + offset)

    return fit_feature


def _fit_isotonic(x: Vector, y: Vector) -> Predict:
    """Return the increasing function closest to the labels."""
    order = np.argsort(x, kind="stable")
    blocks: list[tuple[float, float, float]] = []  # correct labels, labels, sum of scores
    for score, label in zip(x[order], y[order], strict=True):
        block = (float(label), 1.0, float(score))
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            labels, count, total = blocks.pop()
            block = (labels + block[0], count + block[1], total + block[2])
        blocks.append(block)
    right, counts, totals = np.array(blocks).T
    values = np.maximum.accumulate((right + 0.5) / (counts + 1))
    return lambda scores: np.asarray(np.interp(scores, totals / counts, values))


_FITS: tuple[tuple[Kind, Fit], ...] = (
    ("platt", _fit_platt(_compute_logit)),
    ("platt", _fit_platt(_return_unchanged)),
    ("isotonic", _fit_isotonic),
)
