"""Thresholds whose error is bounded at any time, however often one looks, and revoked when it no longer is.

For a candidate threshold t let R(t) be the mean over executions of the share of wrong results among their steps with a
score of at least t. The threshold may be used once the hypothesis R(t) > alpha is rejected. It is tested by betting
(Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024): each execution multiplies
the wealth by 1 + bet * y, where y is the mean of (alpha - wrong) over its labelled steps of a score >= t. Steps of one
execution may depend on each other in any way, because they make one bet. Under the hypothesis the wealth is a
supermartingale for every bet in [0, 1 / (1 - alpha)] that follows from earlier executions; so it ever reaches
1 / level with a probability of at most `level` (Ville). The bet is adaptive, as their aGRAPA:

    bet = sum of y / (sum of y ** 2 + (1 - 2 * alpha) * sum of y)

over the earlier executions. For executions of one step this is (alpha - error) / (alpha * (1 - alpha)), the bet under
which the wealth grows fastest.

**Selection.** A step above the threshold in use is labelled with the audit rate f as probability, any other always.
All are made equally likely: each labelled step is kept with the probability f / p, where p is that with which it was
selected, and y is the expectation, over what is kept, of the mean (0 if nothing is kept). An expectation over bets is
a bet. It is (alpha - wrong) * f / p for one step, and the plain mean where all p are f.

**Several candidates.** A share of the level belongs to the strictest candidate, the rest to all in equal parts; a
proven candidate passes its level on to the next one (fallback procedure: Wiens, 2003). So any wrong proof has a
probability of at most the level. The first level is 0.8 delta, that after j revocations 0.2 delta / (j (j + 1)).
These sum to delta. A proven threshold is used once `MIN_BAND_LABELS` executions have labels between it and the next
candidate above: a proof says nothing about scores that nobody has seen.

**Harder steps.** The scores of recent steps and the error rates at these scores predict the error above each proven
threshold (`error_rates`). The lowest one with a prediction of at most 0.9 alpha is used; without one, each step is
asked.

**Revocation.** Each proven threshold has a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo, "E-detectors", 2024)

    M = (M + 1) * (1 - bet * y),    bet in [0, 1 / alpha)

averaged over three bets. While R(t) <= alpha, M minus the number of executions is a supermartingale, so the mean
number of labelled executions until a false alarm is at least `REVOCATION_LEVEL`. A revoked threshold, and all after
it, must be proven again with later labels.

**Audit rate.** The credit is the number of further errors that the steps that passed could have before their share of
errors is alpha: their number, times alpha minus the share of wrong results among the labels above the threshold in
use. A step that was selected with probability p stands for the 1 / p - 1 steps that passed meanwhile. The rate is
log(1 / delta) / credit: with it, the probability that as many wrong steps as the credit pass in a row without an
audit is at most delta. It is at most `MAX_RATE`, so that steps pass and the credit can grow. It grows with the square
of the evidence of a change, in the audits (M) or in all labels (`error_rates`). A rate that follows from earlier
labels changes nothing about the proofs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log, log1p

from services.planner.domain.error_rates import ErrorRates, RecentScores

CANDIDATES = (0.95, 0.90, 0.85, 0.80, 0.75, 0.70, 0.65, 0.60)
MIN_BAND_LABELS = 10
REVOCATION_LEVEL = 10_000.0
MAX_RATE = 0.6

_MAX_FRACTION = 0.8
_PRIOR_LABELS = 10.0
_DETECTOR_FRACTIONS = (0.1, 0.25, 0.5)
_FIRST_LEVEL_SHARE = 0.8
"""The share of delta for the proofs before the first revocation."""
_STRICTEST_SHARE = 0.8
"""The share of a level that belongs to the strictest candidate alone."""
_QUIET_AUDITS = 7.0
_QUIET_LABELS = 250.0
"""The evidence of a change up to which the audit rate does not grow."""
_PREDICTED_SHARE = 0.9
"""The share of alpha that the predicted error of the threshold in use may reach."""


@dataclass(frozen=True, slots=True)
class StepLabel:
    """The label of a step: `probability` is that with which the step was selected for a label."""

    score: float
    wrong: bool
    probability: float


@dataclass(slots=True)
class _Candidate:
    """The evidence about one threshold since its last revocation; the sums are those of y and of its square."""

    threshold: float
    outcome_sum: float
    square_sum: float
    log_wealth: float = 0.0
    is_proven: bool = False
    band_labels: int = 0
    labels: int = 0
    wrong_labels: int = 0
    detectors: list[float] = field(default_factory=lambda: [0.0] * len(_DETECTOR_FRACTIONS))

    def bet(self, y: float, alpha: float) -> None:
        """Multiply the wealth by the outcome of a bet that follows from earlier outcomes."""
        if self.outcome_sum > 0:
            bet = self.outcome_sum / (self.square_sum + self.outcome_sum * (1 - 2 * alpha))
            self.log_wealth += log1p(min(bet, _MAX_FRACTION / (1 - alpha)) * y)
        self.outcome_sum += y
        self.square_sum += y * y

    def watch(self, factors: Sequence[float]) -> None:
        """Update the detectors."""
        self.detectors = [(m + 1) * factor for m, factor in zip(self.detectors, factors, strict=True)]

    def estimate_error(self, alpha: float) -> float:
        """Return the share of wrong labels, with the prior of a few labels."""
        return (self.wrong_labels + _PRIOR_LABELS * alpha / 2) / (self.labels + _PRIOR_LABELS)

    @property
    def alarm(self) -> float:
        """Return the evidence that the error rate has risen above alpha; it stays around 5 otherwise."""
        return sum(self.detectors) / len(self.detectors)


class ThresholdGuarantee:
    """Finds the lowest threshold that may be used at a target error `alpha` with confidence 1 - `delta`."""

    def __init__(
        self,
        alpha: float = 0.1,
        delta: float = 0.1,
        candidates: tuple[float, ...] = CANDIDATES,
        min_rate: float = 0.02,
    ) -> None:
        if not 0 < alpha < 1 or not 0 < delta < 1:
            raise ValueError(f"alpha and delta must be in (0, 1), got {alpha} and {delta}")
        if list(candidates) != sorted(candidates, reverse=True):
            raise ValueError("candidates must be in descending order")
        if not 0 < min_rate <= MAX_RATE:
            raise ValueError(f"min_rate must be in (0, {MAX_RATE}], got {min_rate}")
        self.alpha = alpha
        self.delta = delta
        self.min_rate = min_rate
        self.revocations = 0
        self.passed_steps = 0.0
        self._candidates = [self._make_candidate(threshold) for threshold in candidates]
        self._negated = [-threshold for threshold in candidates]
        self._lowest: int | None = None
        self._errors = ErrorRates(len(candidates) + 1, alpha)
        self._scores = RecentScores(len(candidates) + 1)

    @property
    def threshold(self) -> float | None:
        """Return the threshold in use; None if there is none."""
        used = self._find_used()
        return used.threshold if used else None

    @property
    def audit_rate(self) -> float:
        """Return the probability with which a step above the threshold in use is to be labelled; 1 without one."""
        used = self._find_used()
        if used is None:
            return 1.0
        credit = self.passed_steps * (self.alpha - used.estimate_error(self.alpha))
        rate = max(self.min_rate, min(MAX_RATE, -log(self.delta) / max(credit, 1.0)))
        return min(1.0, rate * max(1.0, used.alarm / _QUIET_AUDITS, self._errors.alarm / _QUIET_LABELS) ** 2)

    def count_selection(self, score: float, probability: float) -> None:
        """Count a step that was selected for a label with `probability`, and the steps for which it stands."""
        self.passed_steps += 1 / probability - 1
        self._scores.count(self._find_band(score), probability)

    def learn(self, score: float, wrong: bool, probability: float, floor: float) -> None:
        """Process the label of an execution with one step; `floor` is the audit rate of its time."""
        labels = [StepLabel(score, wrong, probability)]
        self._check(labels, floor)
        self.count_selection(score, probability)
        self.watch(labels, floor)
        self.prove(labels, floor)

    def prove(self, labels: Sequence[StepLabel], rate: float) -> None:
        """Bet on the labels of one execution, in the order of the decisions. `rate`: its lowest audit rate."""
        self._check(labels, rate)
        for candidate, y in self._iterate_means(labels, rate):
            candidate.bet(y, self.alpha)
        for band in {self._find_band(label.score) for label in labels}:
            if band < len(self._candidates):
                self._candidates[band].band_labels += 1
        self._find_lowest()

    def watch(self, labels: Sequence[StepLabel], rate: float) -> bool:
        """Look for a change in the labels of one execution, as soon as they are there; return True if one is found."""
        self._check(labels, rate)
        for label in labels:
            self._count(label)
        if self._lowest is None:
            return False
        for candidate, y in self._iterate_means(labels, rate):
            if candidate.is_proven:
                candidate.watch([1 - fraction / self.alpha * y for fraction in _DETECTOR_FRACTIONS])
        for position, candidate in enumerate(self._candidates):
            if candidate.is_proven and candidate.alarm >= REVOCATION_LEVEL:
                self._revoke(position)
                return True
        return False

    def _count(self, label: StepLabel) -> None:
        """Add a label to the error rates, and to the candidates that it reaches."""
        band = self._find_band(label.score)
        self._errors.count(band, label.wrong)
        for candidate in self._candidates[band:]:
            candidate.labels += 1
            candidate.wrong_labels += label.wrong

    def _make_candidate(self, threshold: float) -> _Candidate:
        """Return a candidate with the prior of a few labels, of which half the permitted share is wrong."""
        alpha, wrong = self.alpha, self.alpha / 2
        square = wrong * (1 - alpha) ** 2 + (1 - wrong) * alpha**2
        return _Candidate(threshold, _PRIOR_LABELS * (alpha - wrong), _PRIOR_LABELS * square)

    def _check(self, labels: Sequence[StepLabel], rate: float) -> None:
        for label in labels:
            if not 0 < rate <= label.probability <= 1:
                raise ValueError(f"0 < floor <= probability <= 1 must hold, got {rate} and {label.probability}")

    def _find_band(self, score: float) -> int:
        """Return the position of the strictest candidate that a score reaches."""
        return bisect_left(self._negated, -score)

    def _iterate_means(self, labels: Sequence[StepLabel], rate: float) -> Iterator[tuple[_Candidate, float]]:
        """Return each candidate that a label reaches, and y of the labels that reach it."""
        y, count = 0.0, 0
        for candidate in self._candidates[min(self._find_band(label.score) for label in labels) :]:
            if count < len(labels):
                above = [label for label in labels if label.score >= candidate.threshold]
                if len(above) > count:
                    keep = [rate / label.probability for label in above]
                    y = sum((self.alpha - label.wrong) * weigh(keep, i) for i, label in enumerate(above))
                    count = len(above)
            yield candidate, y

    def _find_used(self) -> _Candidate | None:
        """Return the lowest proven candidate above which recent steps have a small predicted error."""
        if self._lowest is None:
            return None
        for position in range(self._lowest, -1, -1):
            candidate = self._candidates[position]
            is_usable = candidate.is_proven and candidate.band_labels >= MIN_BAND_LABELS
            predicted = self._errors.predict(self._scores.weights[: position + 1])
            if is_usable and predicted <= _PREDICTED_SHARE * self.alpha:
                return candidate
        return None

    def _find_lowest(self) -> None:
        """Find the proven candidates by the fallback procedure, and the lowest one with labels of its own band."""
        total = self._level
        level = total * _STRICTEST_SHARE
        self._lowest = None
        for position, candidate in enumerate(self._candidates):
            level += total * (1 - _STRICTEST_SHARE) / len(self._candidates)
            if not candidate.is_proven:
                candidate.is_proven = candidate.log_wealth > 0 and candidate.log_wealth >= -log(level)
            if not candidate.is_proven:
                level = 0.0
            elif candidate.band_labels >= MIN_BAND_LABELS:
                self._lowest = position

    @property
    def _level(self) -> float:
        """Return the level of the next proofs."""
        if self.revocations == 0:
            return self.delta * _FIRST_LEVEL_SHARE
        return self.delta * (1 - _FIRST_LEVEL_SHARE) / (self.revocations * (self.revocations + 1))

    def _revoke(self, position: int) -> None:
        """Take a candidate and all after it out of use, and forget the labels that proved them, and the error rates."""
        self.revocations += 1
        self._errors = ErrorRates(len(self._candidates) + 1, self.alpha)
        for later in range(position, len(self._candidates)):
            self._candidates[later] = self._make_candidate(self._candidates[later].threshold)
        self._find_lowest()


def weigh(keep: Sequence[float], position: int) -> float:
    """Return the expected weight of one step in the mean of those that are kept with these probabilities."""
    if min(keep) == 1.0:
        return 1 / len(keep)
    counts = [1.0]  # counts[n]: the probability that n of the others are kept
    for other, probability in enumerate(keep):
        if other != position:
            without, including = [c * (1 - probability) for c in counts], [c * probability for c in counts]
            counts = [a + b for a, b in zip([*without, 0.0], [0.0, *including], strict=True)]
    return keep[position] * sum(c / (1 + n) for n, c in enumerate(counts))
