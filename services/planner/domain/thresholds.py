"""Map a confidence to an intervention level, and adjust the thresholds by feedback (P-75 to P-77, P-89 to P-91)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum


class InterventionLevel(StrEnum):
    """The degree to which a person is involved."""

    SILENT = "silent"
    NOTIFY = "notify"
    CONFIRM = "confirm"
    ESCALATE = "escalate"

    @property
    def requires_answer(self) -> bool:
        """Return True if the execution waits for a person."""
        return self in (InterventionLevel.CONFIRM, InterventionLevel.ESCALATE)

    @property
    def action(self) -> str:
        """Return the action of the executor at this level (P-75)."""
        return _ACTIONS[self]


_ACTIONS = {
    InterventionLevel.SILENT: "proceed",
    InterventionLevel.NOTIFY: "proceed_with_status",
    InterventionLevel.CONFIRM: "ask_confirmation",
    InterventionLevel.ESCALATE: "request_clarification",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The level of a confidence and the action at this level."""

    level: InterventionLevel
    action: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The lowest confidence of each level (P-75); the bounds belong to the higher level."""

    silent: float = 0.9
    notify: float = 0.7
    confirm: float = 0.4

    def __post_init__(self) -> None:
        if not 0 <= self.confirm < self.notify < self.silent <= 1:
            raise ValueError(
                "thresholds must satisfy 0 <= confirm < notify < silent <= 1, "
                f"got confirm={self.confirm}, notify={self.notify}, silent={self.silent}"
            )

    def decide_action(self, score: float) -> Decision:
        """Return the level of a score and its action (P-75)."""
        if score >= self.silent:
            level = InterventionLevel.SILENT
        elif score >= self.notify:
            level = InterventionLevel.NOTIFY
        elif score >= self.confirm:
            level = InterventionLevel.CONFIRM
        else:
            level = InterventionLevel.ESCALATE
        return Decision(level, level.action)

    def raise_by(self, by: float) -> Thresholds:
        """Return thresholds higher by `by`, none above its cap (P-90); one configured above its cap is unchanged."""
        return Thresholds(*(round(max(v, min(v + by, cap)), 3) for v, cap in zip(self.values, _CAPS, strict=True)))

    def lower_by(self, by: float) -> Thresholds:
        """Return thresholds lower by `by`, none below its floor (P-90); one configured below its floor is unchanged."""
        return Thresholds(*(round(min(v, max(v - by, low)), 3) for v, low in zip(self.values, _FLOORS, strict=True)))

    @property
    def values(self) -> tuple[float, float, float]:
        """Return silent, notify, confirm."""
        return self.silent, self.notify, self.confirm


_CAPS = (0.95, 0.85, 0.60)
_FLOORS = (0.80, 0.60, 0.30)
_TOLERATED_ERRORS = 3


class DynamicThresholdAdjuster:
    """Adjusts the thresholds by feedback about past confidences (P-89 to P-91)."""

    def __init__(
        self, configured: Thresholds | None = None, *, learning_rate: float = 0.05, min_samples: int = 10
    ) -> None:
        if not 0 < learning_rate < 1 or min_samples < 1:
            raise ValueError(
                f"learning_rate must be in (0, 1) and min_samples >= 1, got {learning_rate} and {min_samples}"
            )
        self.configured = configured or Thresholds()
        self.thresholds = self.configured
        self._learning_rate = learning_rate
        self._window: deque[tuple[float, bool]] = deque(maxlen=min_samples)
        self.records = 0

    def record(self, confidence: float, correct: bool) -> bool:
        """Add one feedback record; return True if the thresholds moved. The window is not cleared (P-91)."""
        self._window.append((confidence, correct))
        self.records += 1
        if len(self._window) < (self._window.maxlen or 0):
            return False
        before = self.thresholds
        overconfident = sum(value > before.notify and not right for value, right in self._window)
        underconfident = sum(value < before.confirm and right for value, right in self._window)
        if overconfident > _TOLERATED_ERRORS:
            self.thresholds = before.raise_by(self._learning_rate)
        elif underconfident > _TOLERATED_ERRORS:
            self.thresholds = before.lower_by(self._learning_rate)
        return self.thresholds != before

    def reset(self) -> None:
        """Restore the configured thresholds and delete the records (P-91)."""
        self.thresholds = self.configured
        self._window.clear()
        self.records = 0
