"""Estimate how often steps are wrong by their score, and notice when errors become more frequent.

A person answers each step below the threshold in use, so most labels are of steps that say nothing about its error.
They do show whether errors have become more frequent, at no cost. Nothing here is part of a proof: it decides how
often steps are audited, and makes the threshold in use stricter.

Scores are counted in bands. A band is the position of the strictest candidate threshold that a score reaches; the last
band has the scores below all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

LAG = 100
"""The number of latest labels with which a label is not compared, so that a change does not hide itself."""
RISES = (0.1, 0.3)
MAX_ERROR = 0.95
PRIOR_LABELS = 10.0
HORIZON = 500
"""The number of steps after which the weight of a score has fallen to 1 / e."""
UNSEEN_LABELS = 4.0
UNSEEN_ERROR = 0.25
MAX_EVIDENCE = 1e6
"""The evidence from which on a change has been seen, and the labels before it say nothing any more."""


class ErrorRates:
    """The share of wrong labels in each band, and the evidence that errors have become more frequent.

    The evidence is a Shiryaev-Roberts statistic of each rise: M = (M + 1) * q / p for a wrong label and
    (M + 1) * (1 - q) / (1 - p) for a right one. Here q = p + rise, at most `MAX_ERROR`, and p is the error of the band,
    estimated from labels that are older than the latest `LAG`. If p were exact and labels were independent, the mean of
    M would be the number of labels without a change. When M reaches `MAX_EVIDENCE`, only the latest labels remain.
    """

    def __init__(self, bands: int, alpha: float) -> None:
        self._alpha = alpha
        self._labels, self._wrong = [0] * bands, [0] * bands
        self._old_labels, self._old_wrong = [0] * bands, [0] * bands
        self._latest: deque[tuple[int, bool]] = deque()
        self._evidence = [0.0] * len(RISES)

    @property
    def alarm(self) -> float:
        """Return the evidence of the rise that the labels show best."""
        return max(self._evidence)

    def count(self, band: int, wrong: bool) -> None:
        """Update the evidence with a label, and add the label to its band."""
        error = (self._old_wrong[band] + PRIOR_LABELS * self._alpha) / (self._old_labels[band] + PRIOR_LABELS)
        for position, rise in enumerate(RISES):
            higher = max(error, min(MAX_ERROR, error + rise))
            factor = higher / error if wrong else (1 - higher) / (1 - error)
            self._evidence[position] = (self._evidence[position] + 1) * factor
        self._latest.append((band, wrong))
        self._labels[band] += 1
        self._wrong[band] += wrong
        if len(self._latest) > LAG:
            self._age_label()
        if self.alarm >= MAX_EVIDENCE:
            self._forget_older_labels()

    def _age_label(self) -> None:
        """Add the oldest of the latest labels to those with which labels are compared."""
        band, wrong = self._latest.popleft()
        self._old_labels[band] += 1
        self._old_wrong[band] += wrong

    def _forget_older_labels(self) -> None:
        """Begin again with the latest labels, so that a change raises the audit rate for a while only."""
        for band in range(len(self._labels)):
            self._labels[band] -= self._old_labels[band]
            self._wrong[band] -= self._old_wrong[band]
            self._old_labels[band] = self._old_wrong[band] = 0
        while self._latest:
            self._age_label()
        self._evidence = [0.0] * len(RISES)

    def predict(self, weights: Sequence[float]) -> float:
        """Return the error of steps whose scores lie in the first bands with these weights; 0 without any."""
        total = sum(weights)
        return sum(weight * self._estimate(band) for band, weight in enumerate(weights)) / total if total else 0.0

    def _estimate(self, band: int) -> float:
        """Return the error of a band; a quarter of the steps is assumed to be wrong where labels are few."""
        return (self._wrong[band] + UNSEEN_LABELS * UNSEEN_ERROR) / (self._labels[band] + UNSEEN_LABELS)


class RecentScores:
    """The bands of recent scores; a step that was selected with probability p stands for 1 / p steps."""

    def __init__(self, bands: int) -> None:
        self.weights = [0.0] * bands

    def count(self, band: int, probability: float) -> None:
        """Add the score of a step that was selected for a label."""
        remaining = (1 - 1 / HORIZON) ** (1 / probability)
        self.weights = [weight * remaining for weight in self.weights]
        self.weights[band] += 1 - remaining
