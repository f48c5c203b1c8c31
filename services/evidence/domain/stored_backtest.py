"""The stored backtest of a target, which grows with the archive, and the demotions that follow from it (ADR 195)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chassis.targets.guard import GuardMode
from libs.guards.backtest import Backtest
from libs.guards.exact_tests import find_upper_bound
from services.evidence.domain.false_alarms import compute_evidence_above
from services.evidence.domain.guard_modes import MAX_BOUND_OF_ADVISE, MAX_BOUND_OF_ASK
from services.evidence.domain.guard_trials import REQUIRED_EVIDENCE


@dataclass(frozen=True, slots=True)
class StoredBacktest:
    """The counts of a backtest. The later ones are of trajectories that were archived after it was stored."""

    failed: int
    failed_firing: int
    passed: int
    passed_firing: int
    false_alarms: int
    later_passed: int = 0
    later_alarms: int = 0

    @classmethod
    def from_backtest(cls, result: Backtest) -> StoredBacktest:
        """Return the counts of a new backtest."""
        return cls(result.failed, result.failed_firing, result.passed, result.passed_firing, result.false_alarms)

    def add(self, later: Backtest) -> StoredBacktest:
        """Return the counts with those of trajectories that were archived later."""
        return replace(
            self,
            failed=self.failed + later.failed,
            failed_firing=self.failed_firing + later.failed_firing,
            passed=self.passed + later.passed,
            passed_firing=self.passed_firing + later.passed_firing,
            false_alarms=self.false_alarms + later.false_alarms,
            later_passed=self.later_passed + later.passed,
            later_alarms=self.later_alarms + later.false_alarms,
        )

    @property
    def false_alarm_bound(self) -> float:
        """Return the 95 % upper confidence bound of the share of passing trajectories with a false alarm."""
        return find_upper_bound(self.false_alarms, self.passed)


@dataclass(frozen=True, slots=True)
class Demotion:
    """The mode to which a guard falls, with the reason; evidence does not raise it again if it is final."""

    bullet_id: str
    target: str
    before: GuardMode
    after: GuardMode
    reason: str
    is_final: bool


def demote(
    bullet_id: str, target: str, before: GuardMode, allowed: GuardMode, tested: StoredBacktest
) -> Demotion | None:
    """Return the demotion of a guard in the mode `before`, None if it keeps it. `allowed` is its highest mode now.

    It is final if the later trajectories alone show that the rate of false alarms is above the limit of the mode.
    """
    if before <= GuardMode.SHADOW:
        return None
    limit = MAX_BOUND_OF_ADVISE if before is GuardMode.ADVISE else MAX_BOUND_OF_ASK
    is_final = compute_evidence_above(tested.later_passed, tested.later_alarms, limit) >= REQUIRED_EVIDENCE
    after = GuardMode.SHADOW if is_final else min(before, allowed)
    if after == before:
        return None
    reason = (
        f"false alarms in {tested.false_alarms} of {tested.passed} passing trajectories of the archive,"
        f" at most {tested.false_alarm_bound:.1%}"
    )
    return Demotion(bullet_id, target, before, after, reason, is_final)
