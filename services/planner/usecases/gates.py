"""The gate that goes by thresholds people's feedback moves (P-75, P-76, P-89)."""

from __future__ import annotations

from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.thresholds import DynamicThresholdAdjuster, Thresholds
from services.planner.usecases.judge import Verdict
from services.planner.usecases.store import Feedback


class AdjustedGate:
    """Compares the score with the thresholds in force."""

    mode = "adjusted"

    def __init__(self, configured: Thresholds, *, learning_rate: float = 0.05, min_samples: int = 10) -> None:
        self.adjuster = DynamicThresholdAdjuster(configured, learning_rate=learning_rate, min_samples=min_samples)

    @property
    def configured(self) -> Thresholds:
        """The thresholds without any feedback."""
        return self.adjuster.configured

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the next decision."""
        return self.adjuster.thresholds

    @property
    def calibration(self) -> tuple[str, float | None]:
        """This gate compares raw scores."""
        return "none", None

    def decide(self, score: ConfidenceScore) -> Verdict:
        """The verdict by the adjusted thresholds."""
        return Verdict(self.thresholds.decide_action(score.score).level, self.thresholds)

    def learn(self, record: Feedback) -> bool:
        """Takes a record (P-89); whether the thresholds moved."""
        return self.adjuster.record(record.confidence, record.correct)
