"""Thresholds whose error is bounded at any time, however often one looks.

For a candidate threshold t let R(t) be the share of wrong results among steps with a score of at least t. The threshold
may be used once the hypothesis R(t) > alpha is rejected. It is tested by betting (Waudby-Smith and Ramdas, "Estimating
means of bounded random variables by betting", 2024): with every labelled step of a score >= t the wealth is multiplied
by

    1 + bet * (alpha - wrong) / probability

where `probability` is that with which the step was chosen to be labelled (1 for a step that was asked anyway, the audit
rate for one that would have passed): weighting by its inverse makes the labelled steps speak for all. Under the
hypothesis the wealth is a supermartingale for every bet in [0, floor / (1 - alpha)], where `floor` is the smallest
probability any step could have had at that time; so it ever reaches 1 / delta with a probability of at most delta
(Ville). Bets are a mixture of fixed fractions of their bound, which is again such a process.

Candidates are tested in a fixed order, from the strictest down, and one is used only if all before it are. So the first
one that is wrong to use is used with a probability of at most delta, and with it all after it (fixed-sequence testing).

A threshold in use is revoked when its labels show that its share of wrong results has become more than alpha. The test
is a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo, "E-detectors", 2024) over the same labels:

    M = (M + 1) * (1 + bet * (wrong - alpha) / probability),    bet in [0, floor / alpha)

averaged over the bets. While R(t) <= alpha, M minus the number of labels is a supermartingale; so M reaches c within n
labels with a probability of at most n / c, for each threshold in use. A revoked threshold, and all after it, must be
proven again with labels that come later.

Labels must be taken in the order of the decisions, not of their arrival: labels that are late because they are bad
would else make the wealth look better than it is. `wrong` may be replaced by True where it stays unknown.
"""

from __future__ import annotations

import numpy as np

CANDIDATES = (0.95, 0.90, 0.85, 0.80, 0.75, 0.70, 0.65, 0.60)
_FRACTIONS = (0.1, 0.25, 0.5, 0.8)
_REVOCATION_LEVEL = 20_000.0


class ThresholdGuarantee:
    """Finds the lowest threshold that may be used at a target error `alpha` with confidence 1 - `delta`."""

    def __init__(self, alpha: float, delta: float, candidates: tuple[float, ...] = CANDIDATES) -> None:
        if not 0 < alpha < 1 or not 0 < delta < 1:
            raise ValueError(f"alpha and delta must be in (0, 1), got {alpha} and {delta}")
        if list(candidates) != sorted(candidates, reverse=True):
            raise ValueError("candidates must be in descending order")
        self.alpha = alpha
        self.delta = delta
        self.candidates = candidates
        self.accepted_count = 0
        self.labels = 0
        self.revocations = 0
        self._sorted = np.asarray(candidates)
        self._fractions = np.asarray(_FRACTIONS)
        self._log_wealth = np.zeros((len(candidates), len(_FRACTIONS)))
        self._detectors = np.zeros((len(candidates), len(_FRACTIONS)))

    @property
    def threshold(self) -> float | None:
        """Return the lowest threshold in use; None as long as none is proven."""
        return self.candidates[self.accepted_count - 1] if self.accepted_count else None

    def learn(self, score: float, wrong: bool, probability: float, floor: float) -> None:
        """Process the label of one step, in the order of the decisions.

        `probability`: with which the step was selected for a label; `floor`: the smallest any step could have had then.
        """
        if not 0 < floor <= probability <= 1:
            raise ValueError(f"0 < floor <= probability <= 1 must hold, got {floor} and {probability}")
        self.labels += 1
        concerned = self._sorted <= score
        bets = self._fractions * floor / (1 - self.alpha)
        self._log_wealth[concerned] += np.log1p(bets * (self.alpha - wrong) / probability)
        in_use = concerned & (np.arange(len(self.candidates)) < self.accepted_count)
        growth = 1 + self._fractions * floor / self.alpha * (wrong - self.alpha) / probability
        self._detectors[in_use] = (self._detectors[in_use] + 1) * growth
        alarms = np.flatnonzero(self._detectors.mean(axis=1) >= _REVOCATION_LEVEL)
        if alarms.size:
            self._revoke(int(alarms[0]))
        while self.accepted_count < len(self.candidates) and self._is_proven(self.accepted_count):
            self.accepted_count += 1

    def _revoke(self, candidate: int) -> None:
        """Take a candidate and all after it out of use, and forget the labels that proved them."""
        self.accepted_count = candidate
        self.revocations += 1
        self._log_wealth[candidate:] = 0
        self._detectors[candidate:] = 0

    def _is_proven(self, candidate: int) -> bool:
        """Return True if the wealth of a candidate has reached 1 / delta."""
        row = self._log_wealth[candidate]
        top = row.max()
        return bool(top + np.log(np.mean(np.exp(row - top))) >= -np.log(self.delta))
