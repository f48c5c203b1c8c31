"""Backtests: the firings that a target would have had in recorded trajectories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from chassis.targets.target import Target
from libs.guards.exact_tests import find_interval, find_upper_bound
from libs.guards.firings import find_firings
from libs.guards.guard_trajectory import GuardTrajectory


@dataclass(frozen=True, slots=True)
class Firing:
    """The first call of a trajectory that a target matches: its step, and its number among the calls, from 0."""

    trajectory_id: str
    task_id: str
    step: int
    call_index: int
    is_success: bool
    is_late: bool
    """The step is after the first wrong write, which people know."""
    content_hash: str = ""


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
    def false_alarm_bound(self) -> float:
        """Return the 95 % upper confidence bound of the share of passed trajectories in which the target fires."""
        return find_upper_bound(self.passed_firing, self.passed)

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the share of failed trajectories in which the target fires in time."""
        return find_interval(self.failed_firing, self.failed)

    def describe(self) -> dict[str, Any]:
        """Return the counts, the bound and the firings as a document."""
        counts = ("failed", "failed_firing", "passed", "passed_firing", "false_alarm_bound")
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
            index, step = calls[0]
            is_late = trajectory.wrong_step is not None and step > trajectory.wrong_step
            firings.append(
                Firing(
                    trajectory.id,
                    trajectory.task_id,
                    step,
                    index,
                    trajectory.is_success,
                    is_late,
                    trajectory.content_hash,
                )
            )
    return Backtest(failed, passed, tuple(firings))
