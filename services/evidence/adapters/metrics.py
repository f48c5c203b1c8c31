"""Metrics of servings, reports and decisions."""

from __future__ import annotations

from collections.abc import Sequence

from chassis.telemetry import meter
from services.evidence.domain.trials import BulletDecision

_servings = meter.create_counter(
    "hansei.evidence.servings", unit="{serving}", description="Servings, by whether bullets were assigned at random."
)
_reports = meter.create_counter(
    "hansei.evidence.reports", unit="{report}", description="Reported outcomes, by whether the trials count them."
)
_decisions = meter.create_counter(
    "hansei.evidence.decisions", unit="{decision}", description="Changes of the state of bullets, by new state."
)
_trajectories = meter.create_counter(
    "hansei.evidence.trajectories",
    unit="{trajectory}",
    description="Trajectories sent to the archive, by whether they were new.",
)
_failed_checks = meter.create_gauge(
    "hansei.evidence.failed.checks",
    unit="{dataset}",
    description="Datasets whose random assignment does not fit their policy, so that nothing is decided.",
)
_checks = meter.create_counter(
    "hansei.evidence.checks", unit="{call}", description="Checked tool calls, by decision; unchecked ones were allowed."
)
_firings = meter.create_counter(
    "hansei.evidence.firings", unit="{firing}", description="Guards that matched a checked tool call."
)
_guard_failures = meter.create_counter(
    "hansei.evidence.guard.failures",
    unit="{evaluation}",
    description="Guards that could not be evaluated, so that they allowed the tool call.",
)


def report_failed_checks(datasets: int) -> None:
    """Report the number of datasets with a failed check."""
    _failed_checks.set(datasets)


def count_check(decision: str, firings: int, failures: int) -> None:
    """Count one check of a tool call, the guards that matched it, and those that could not be evaluated."""
    _checks.add(1, {"decision": decision})
    if firings:
        _firings.add(firings)
    if failures:
        _guard_failures.add(failures)


def count_serving(is_randomized: bool) -> None:
    """Count one recall."""
    _servings.add(1, {"randomized": is_randomized})


def count_report(counted: bool, decisions: Sequence[BulletDecision]) -> None:
    """Count one report and its decisions."""
    _reports.add(1, {"counted": counted})
    for decision in decisions:
        _decisions.add(1, {"state": decision.after.value})


def count_stored_trajectory(is_new: bool) -> None:
    """Count one trajectory."""
    _trajectories.add(1, {"new": is_new})
