"""The gate that goes by thresholds people's feedback moves (P-75, P-76, P-89)."""

from __future__ import annotations

from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.thresholds import DynamicThresholdAdjuster, Thresholds
from services.planner.usecases.judge import Verdict


class AdjustedGate:
    """Compares the score with the thresholds in force."""

    mode = "adjusted"

    def __init__(self, configured: Thresholds, *, learning_rate: float = 0.05, min_samples: int = 10) -> None:
        self.adjuster = DynamicThresholdAdjuster(configured, learning_rate=learning_rate, min_samples=min_samples)

    def decide(self, score: ConfidenceScore) -> Verdict:
        """The verdict by the adjusted thresholds."""
        thresholds = self.adjuster.thresholds
        return Verdict(thresholds.decide_action(score.score).level, thresholds)
