"""Backtests: the firings that a target would have had in recorded trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chassis.targets.target import Target
from libs.guards.exact_tests import find_upper_bound
from libs.guards.firings import find_firings
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall


@dataclass(frozen=True, slots=True)
class Firing:
    """The call by which a trajectory counts as one with a firing: its step, and its number among the calls, from 0.

    It is the first call that the target matches; of a passing trajectory, the first of them that did not fail.
    """

    trajectory_id: str
    task_id: str
    step: int
    call_index: int
    is_success: bool
    is_late: bool
    """The step is after the first wrong write, which people know."""
    content_hash: str = ""
    is_mistake: bool = False
    """Every call that the target matches failed."""

    @property
    def is_false_alarm(self) -> bool:
        """Return whether the trajectory passed, and the mistake did not follow the firing (ADR 195)."""
        return self.is_success and not self.is_mistake


@dataclass(frozen=True, slots=True)
class Backtest:
    """The firings of a target in recorded trajectories, a trajectory once; late ones do not count as coverage."""

    failed: int = 0
    passed: int = 0
    firings: tuple[Firing, ...] = ()

    def add(self, other: Backtest) -> Backtest:
        """Return the backtest on the trajectories of both."""
        return Backtest(self.failed + other.failed, self.passed + other.passed, self.firings + other.firings)

    @property
    def failed_firing(self) -> int:
        """Return the number of failed trajectories in which the target fires in time."""
        return sum(1 for firing in self.firings if not firing.is_success and not firing.is_late)

    @property
    def passed_firing(self) -> int:
        """Return the number of passed trajectories in which the target fires."""
        return sum(1 for firing in self.firings if firing.is_success)

    @property
    def false_alarms(self) -> int:
        """Return the number of passed trajectories in which the target fires at a call that did not fail."""
        return sum(1 for firing in self.firings if firing.is_false_alarm)

    @property
    def false_alarm_bound(self) -> float:
        """Return the 95 % upper confidence bound of the share of passed trajectories with a false alarm."""
        return find_upper_bound(self.false_alarms, self.passed)

    def describe(self) -> dict[str, Any]:
        """Return the counts, the bound and the firings as a document."""
        counts = ("failed", "failed_firing", "passed", "passed_firing", "false_alarms", "false_alarm_bound")
        return {
            **{name: getattr(self, name) for name in counts},
            "firings": [asdict(firing) for firing in self.firings],
        }


def backtest(target: Target, trajectories: Iterable[GuardTrajectory]) -> Backtest:
    """Return the firings of a target in recorded trajectories."""
    failed = passed = 0
    firings: list[Firing] = []
    for trajectory in trajectories:
        failed += not trajectory.is_success
        passed += trajectory.is_success
        calls = find_firings(target, trajectory)
        if calls:
            firings.append(_build_firing(trajectory, calls))
    return Backtest(failed, passed, tuple(firings))


def _build_firing(trajectory: GuardTrajectory, calls: Sequence[tuple[int, TrajectoryCall]]) -> Firing:
    alarms = [(index, call) for index, call in calls if not call.error]
    index, call = alarms[0] if alarms and trajectory.is_success else calls[0]
    return Firing(
        trajectory.id,
        trajectory.task_id,
        call.step,
        index,
        trajectory.is_success,
        trajectory.wrong_step is not None and call.step > trajectory.wrong_step,
        trajectory.content_hash,
        is_mistake=not alarms,
    )
