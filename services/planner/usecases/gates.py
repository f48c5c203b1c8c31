"""Gates: what lets a step go on unasked (P-75, P-76, P-89; issue: thresholds that learn)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from services.planner.domain.calibration import UNCALIBRATED, Calibration
from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.thresholds import DynamicThresholdAdjuster, InterventionLevel, Thresholds
from services.planner.usecases.judge import GateVerdict
from services.planner.usecases.ports import Feedback, StepAudit

if TYPE_CHECKING:
    from services.planner.domain.guarantee import ThresholdGuarantee

_REFIT_EVERY = 10
_MOST_RECORDS = 5_000


class FeedbackCalibration:
    """The calibration that the latest feedback gives; made anew with every tenth record."""

    def __init__(self) -> None:
        self._records: list[tuple[float, bool]] = []
        self._new = 0
        self.current: Calibration = UNCALIBRATED

    def learn(self, record: Feedback) -> None:
        """Takes a record."""
        self._records = [*self._records[-_MOST_RECORDS + 1 :], (record.confidence, record.correct)]
        self._new += 1
        if self._new >= _REFIT_EVERY:
            self._new = 0
            # With NumPy, which takes long to import; few processes ever have so much feedback.
            from services.planner.domain.fits import fit_calibration

            self.current = fit_calibration(*zip(*self._records, strict=True))

    def of(self, score: float) -> float | None:
        """The probability that a step of this score is right; None before there is a calibration."""
        return None if self.current is UNCALIBRATED else self.current(score)


class AdjustedGate:
    """Compares the score with thresholds that feedback moves by the rule of P-89 and P-90."""

    mode = "adjusted"

    def __init__(self, configured: Thresholds, *, learning_rate: float = 0.05, min_samples: int = 10) -> None:
        self.adjuster = DynamicThresholdAdjuster(configured, learning_rate=learning_rate, min_samples=min_samples)
        self._calibration = FeedbackCalibration()

    @property
    def configured(self) -> Thresholds:
        """The thresholds without any feedback."""
        return self.adjuster.configured

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the next decision."""
        return self.adjuster.thresholds

    @property
    def calibration(self) -> Calibration:
        """The calibration in force."""
        return self._calibration.current

    def decide(self, score: ConfidenceScore) -> GateVerdict:
        """The verdict by the adjusted thresholds."""
        level = self.thresholds.decide_action(score.score).level
        return GateVerdict(level, self.thresholds, self._calibration.of(score.score))

    def learn(self, record: Feedback) -> bool:
        """Takes a record (P-89); whether the thresholds moved."""
        self._calibration.learn(record)
        return self.adjuster.record(record.confidence, record.correct)

    def learn_audit(self, audit: StepAudit, wrong: bool) -> bool:
        """This gate audits nothing."""
        return False


class GuaranteedGate:
    """Lets a step pass unasked only above a threshold whose error is bounded; a share of those is asked about anyway.

    Until a threshold is proven, every step is asked about.
    """

    mode = "guaranteed"

    def __init__(
        self,
        configured: Thresholds,
        guarantee: ThresholdGuarantee,
        audit_rate: float,
        rng: Callable[[], float] | None = None,
    ) -> None:
        if not 0.1 <= audit_rate <= 1:
            raise ValueError(f"audit_rate must be in 0.1..1, got {audit_rate}")
        self.configured = configured
        self._guarantee = guarantee
        self._audit_rate = audit_rate
        self._rng = rng or random.SystemRandom().random
        self._calibration = FeedbackCalibration()

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the next decision. Without a proven one, nothing below 1 passes."""
        proven = self._guarantee.threshold
        notify = 0.9999 if proven is None else proven
        silent = min(1.0, max(self.configured.silent, notify + 0.0001))
        return Thresholds(silent, notify, min(self.configured.confirm, notify - 0.0001))

    @property
    def calibration(self) -> Calibration:
        """The calibration in force."""
        return self._calibration.current

    def decide(self, score: ConfidenceScore) -> GateVerdict:
        """The verdict; a step that could pass is asked about with the audit rate as probability."""
        proven, thresholds = self._guarantee.threshold, self.thresholds
        probability = self._calibration.of(score.score)
        floor = 1.0 if proven is None else self._audit_rate
        if proven is None or score.score < proven:
            low = score.score < thresholds.confirm
            level = InterventionLevel.ESCALATE if low else InterventionLevel.CONFIRM
            return GateVerdict(level, thresholds, probability, 1.0, False, floor)
        if self._rng() < self._audit_rate:
            return GateVerdict(InterventionLevel.CONFIRM, thresholds, probability, self._audit_rate, True, floor)
        level = thresholds.decide_action(score.score).level
        return GateVerdict(level, thresholds, probability, self._audit_rate, False, floor)

    def learn(self, record: Feedback) -> bool:
        """Takes a record for the calibration; only audits move the threshold."""
        self._calibration.learn(record)
        return False

    def learn_audit(self, audit: StepAudit, wrong: bool) -> bool:
        """Takes a label, in the order of the decisions; whether the threshold moved."""
        before = self._guarantee.threshold
        self._guarantee.learn(audit.score, wrong, audit.probability, audit.floor)
        return self._guarantee.threshold != before
