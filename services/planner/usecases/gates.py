"""Gates: decide whether a step continues without a question, and learn from feedback (P-75, P-76, P-89)."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.planner.domain.calibration import UNCALIBRATED, Calibration
from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.thresholds import DynamicThresholdAdjuster, InterventionLevel, Thresholds
from services.planner.usecases.ports import Feedback, StepAudit

if TYPE_CHECKING:
    from services.planner.domain.guarantee import ThresholdGuarantee

_REFIT_EVERY = 10
_MAX_RECORDS = 5_000


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The decision of a gate: the level, the thresholds behind it, and the audit."""

    level: InterventionLevel
    thresholds: Thresholds
    calibrated: float | None = None
    audit_probability: float = 0.0
    audited: bool = False
    audit_floor: float = 0.0


class LearningGate(ABC):
    """A gate that learns from feedback. The calibration is fitted again with every tenth record."""

    mode: str

    def __init__(self, configured: Thresholds) -> None:
        self.configured = configured
        self.calibration: Calibration = UNCALIBRATED
        self._records: list[tuple[float, bool]] = []
        self._new_records = 0

    @property
    @abstractmethod
    def thresholds(self) -> Thresholds:
        """Return the thresholds of the next decision."""

    @abstractmethod
    def decide(self, score: ConfidenceScore) -> GateVerdict:
        """Return the verdict on a confidence."""

    def learn(self, record: Feedback) -> bool:
        """Process a feedback record; return True if the thresholds moved."""
        self._records = [*self._records[-_MAX_RECORDS + 1 :], (record.confidence, record.correct)]
        self._new_records += 1
        if self._new_records >= _REFIT_EVERY:
            self._new_records = 0
            # NumPy takes long to import; few processes ever get so much feedback.
            from services.planner.domain.fits import fit_calibration

            self.calibration = fit_calibration(*zip(*self._records, strict=True))
        return False

    def learn_audit(self, audit: StepAudit, wrong: bool) -> bool:
        """Process the label of an audit, in the order of the decisions; return True if the thresholds moved."""
        return False

    def reset(self) -> None:
        """Forget the feedback records; thresholds that follow them become the configured ones (P-91)."""
        self.calibration, self._records, self._new_records = UNCALIBRATED, [], 0

    def _calibrate(self, score: float) -> float | None:
        return None if self.calibration is UNCALIBRATED else self.calibration(score)


class AdjustedGate(LearningGate):
    """Compares the score with thresholds that feedback moves by the rule of P-89 and P-90."""

    mode = "adjusted"

    def __init__(self, configured: Thresholds, *, learning_rate: float = 0.05, min_samples: int = 10) -> None:
        super().__init__(configured)
        self.adjuster = DynamicThresholdAdjuster(configured, learning_rate=learning_rate, min_samples=min_samples)

    @property
    def thresholds(self) -> Thresholds:
        """Return the adjusted thresholds."""
        return self.adjuster.thresholds

    def decide(self, score: ConfidenceScore) -> GateVerdict:
        """Return the verdict by the adjusted thresholds."""
        level = self.thresholds.decide_action(score.score).level
        return GateVerdict(level, self.thresholds, self._calibrate(score.score))

    def learn(self, record: Feedback) -> bool:
        """Process a feedback record (P-89); return True if the thresholds moved."""
        super().learn(record)
        return self.adjuster.record(record.confidence, record.correct)

    def reset(self) -> None:
        """Restore the configured thresholds and forget the feedback records (P-91)."""
        super().reset()
        self.adjuster.reset()


class GuaranteedGate(LearningGate):
    """Passes a step without a question only above a threshold with a bounded error, and audits a share of those steps.

    Until a threshold is proven, every step needs an answer.
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
        super().__init__(configured)
        self._guarantee = guarantee
        self._audit_rate = audit_rate
        self._rng = rng or random.SystemRandom().random

    @property
    def thresholds(self) -> Thresholds:
        """Return the thresholds of the next decision. Without a proven one, nothing below 1 passes."""
        proven = self._guarantee.threshold
        notify = 0.9999 if proven is None else proven
        silent = min(1.0, max(self.configured.silent, notify + 0.0001))
        return Thresholds(silent, notify, min(self.configured.confirm, notify - 0.0001))

    def decide(self, score: ConfidenceScore) -> GateVerdict:
        """Return the verdict; a step that could pass is audited with the audit rate as probability."""
        proven, thresholds = self._guarantee.threshold, self.thresholds
        probability = self._calibrate(score.score)
        if proven is None or score.score < proven:
            is_low = score.score < thresholds.confirm
            level = InterventionLevel.ESCALATE if is_low else InterventionLevel.CONFIRM
            floor = 1.0 if proven is None else self._audit_rate
            return GateVerdict(level, thresholds, probability, 1.0, False, floor)
        is_audited = self._rng() < self._audit_rate
        level = InterventionLevel.CONFIRM if is_audited else thresholds.decide_action(score.score).level
        return GateVerdict(level, thresholds, probability, self._audit_rate, is_audited, self._audit_rate)

    def learn_audit(self, audit: StepAudit, wrong: bool) -> bool:
        """Process the label of an audit, in the order of the decisions; return True if the threshold moved."""
        before = self._guarantee.threshold
        self._guarantee.learn(audit.score, wrong, audit.probability, audit.floor)
        return self._guarantee.threshold != before
