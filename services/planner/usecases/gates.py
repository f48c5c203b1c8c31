"""Gates: decide whether a step continues without a question, and learn from feedback (P-75, P-76, P-89)."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from services.planner.domain.calibration import UNCALIBRATED, Calibration
from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.guarantee import ThresholdGuarantee
from services.planner.domain.labels import LabelQueue
from services.planner.domain.thresholds import DynamicThresholdAdjuster, InterventionLevel, Thresholds
from services.planner.usecases.ports import AuditEntry, AuditKind, Feedback

MakeGuarantee = Callable[[], ThresholdGuarantee]

_REFIT_EVERY = 10
_MAX_RECORDS = 5_000


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The decision of a gate: the level, the thresholds behind it, and the audit.

    `audit_probability`: that with which the step is selected for a label; `audited`: True if it was selected although
    it could pass; `audit_floor`: the audit rate of the time.
    """

    level: InterventionLevel
    thresholds: Thresholds
    calibrated: float | None = None
    audit_probability: float = 0.0
    audited: bool = False
    audit_floor: float = 0.0


class LearningGate(ABC):
    """A gate that learns from feedback. The calibration follows from the records up to the latest tenth one."""

    mode: str

    def __init__(
        self,
        configured: Thresholds,
        make_guarantee: MakeGuarantee = ThresholdGuarantee,
        rng: Callable[[], float] | None = None,
    ) -> None:
        self.configured = configured
        self.queues: dict[str, LabelQueue] = {}
        self._make_guarantee = make_guarantee
        self._rng = rng or random.SystemRandom().random
        self._calibration: Calibration | None = UNCALIBRATED
        """None: to be fitted."""
        self._records: deque[tuple[float, bool]] = deque(maxlen=_MAX_RECORDS + _REFIT_EVERY - 1)
        self._new_records = 0

    @property
    @abstractmethod
    def thresholds(self) -> Thresholds:
        """Return the thresholds of the next decision."""

    @property
    def calibration(self) -> Calibration:
        """Return the calibration. It is fitted when it is needed: a start reads all records, and needs one fit."""
        if self._calibration is None:
            # NumPy takes long to import; few processes ever get so much feedback.
            from services.planner.domain.fits import fit_calibration

            records = list(self._records)[: len(self._records) - self._new_records][-_MAX_RECORDS:]
            self._calibration = fit_calibration(*zip(*records, strict=True))
        return self._calibration

    @abstractmethod
    def decide(self, score: ConfidenceScore, tool: str = "") -> GateVerdict:
        """Return the verdict on a confidence in a result of a tool."""

    def learn(self, record: Feedback) -> bool:
        """Process a feedback record; return True if the thresholds moved."""
        self._records.append((record.confidence, record.correct))
        self._new_records += 1
        if self._new_records == _REFIT_EVERY:
            self._new_records, self._calibration = 0, None
        return False

    def learn_audit(self, entry: AuditEntry) -> bool:
        """Process an entry of the audits, in their order; return True if the thresholds moved."""
        before = self.thresholds
        if entry.kind is AuditKind.SELECTED:
            queue = self.queues.setdefault(entry.tool, LabelQueue(self._make_guarantee()))
            queue.select(entry.execution_id, entry.step_id, entry.score, entry.probability, entry.rate)
        for queue in self.queues.values():
            if entry.kind is AuditKind.LABELLED:
                queue.label(entry.execution_id, entry.step_id, entry.wrong)
            elif entry.kind is AuditKind.ENDED:
                queue.end(entry.execution_id)
        return self.thresholds != before

    def reset(self) -> None:
        """Forget the feedback records; thresholds that follow them become the configured ones (P-91)."""
        self._calibration, self._new_records = UNCALIBRATED, 0
        self._records.clear()

    def _calibrate(self, score: float) -> float | None:
        return None if self.calibration is UNCALIBRATED else self.calibration(score)


class AdjustedGate(LearningGate):
    """Compares the score with thresholds that feedback moves by the rule of P-89 and P-90.

    A share of the steps that continue is selected for a label, without a question. The labels show how large the error
    is, and change nothing.
    """

    mode = "adjusted"

    def __init__(
        self,
        configured: Thresholds,
        make_guarantee: MakeGuarantee = ThresholdGuarantee,
        *,
        learning_rate: float = 0.05,
        min_samples: int = 10,
        audit_rate: float = 0.1,
        rng: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(configured, make_guarantee, rng)
        self.adjuster = DynamicThresholdAdjuster(configured, learning_rate=learning_rate, min_samples=min_samples)
        self._audit_rate = audit_rate

    @property
    def thresholds(self) -> Thresholds:
        """Return the adjusted thresholds."""
        return self.adjuster.thresholds

    def decide(self, score: ConfidenceScore, tool: str = "") -> GateVerdict:
        """Return the verdict by the adjusted thresholds, and the probability that the step gets a label."""
        level = self.thresholds.decide_action(score.score).level
        rate = self._audit_rate
        probability = 1.0 if rate and level.requires_answer else rate
        is_audited = not level.requires_answer and self._rng() < rate
        return GateVerdict(level, self.thresholds, self._calibrate(score.score), probability, is_audited, rate)

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

    Each tool has a threshold of its own. Until one is proven, every step of the tool needs an answer.
    """

    mode = "guaranteed"

    @property
    def thresholds(self) -> Thresholds:
        """Return the strictest thresholds of all tools."""
        return max((self._find_thresholds(tool) for tool in self.queues or [""]), key=lambda found: found.notify)

    def _find_thresholds(self, tool: str) -> Thresholds:
        """Return the thresholds of a tool. Without a proven one, nothing below 1 passes."""
        queue = self.queues.get(tool)
        proven = queue.guarantee.threshold if queue else None
        notify = 0.9999 if proven is None else proven
        silent = min(1.0, max(self.configured.silent, notify + 0.0001))
        return Thresholds(silent, notify, min(self.configured.confirm, notify - 0.0001))

    def decide(self, score: ConfidenceScore, tool: str = "") -> GateVerdict:
        """Return the verdict; a step that could pass is audited with the audit rate as probability."""
        queue, thresholds = self.queues.get(tool), self._find_thresholds(tool)
        probability = self._calibrate(score.score)
        proven = queue.guarantee.threshold if queue else None
        rate = queue.guarantee.audit_rate if queue else 1.0
        if proven is None or score.score < proven:
            is_low = score.score < thresholds.confirm
            level = InterventionLevel.ESCALATE if is_low else InterventionLevel.CONFIRM
            return GateVerdict(level, thresholds, probability, 1.0, False, rate)
        is_audited = self._rng() < rate
        level = InterventionLevel.CONFIRM if is_audited else thresholds.decide_action(score.score).level
        return GateVerdict(level, thresholds, probability, rate, is_audited, rate)
