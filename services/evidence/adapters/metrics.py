"""Metrics of servings, reports and decisions."""

from __future__ import annotations

from collections.abc import Sequence

from chassis.telemetry import meter
from services.evidence.domain.trials import BulletDecision

_servings = meter.create_counter(
    "hansei.evidence.servings", unit="{serving}", description="Recalls, by whether bullets were assigned at random."
)
_reports = meter.create_counter(
    "hansei.evidence.reports", unit="{report}", description="Reported outcomes, by whether they count."
)
_decisions = meter.create_counter(
    "hansei.evidence.decisions", unit="{decision}", description="Changes of the state of bullets, by state after."
)
_checks = meter.create_counter(
    "hansei.evidence.checks", unit="{call}", description="Checked tool calls, by decision; unchecked ones were allowed."
)
_firings = meter.create_counter(
    "hansei.evidence.firings", unit="{firing}", description="Guards that matched a checked tool call."
)


def count_check(decision: str, firings: int) -> None:
    """Count one check of a tool call and the guards that matched it."""
    _checks.add(1, {"decision": decision})
    if firings:
        _firings.add(firings)


def count_serving(is_randomized: bool) -> None:
    """Count one recall."""
    _servings.add(1, {"randomized": is_randomized})


def count_report(counted: bool, decisions: Sequence[BulletDecision]) -> None:
    """Count one report and its decisions."""
    _reports.add(1, {"counted": counted})
    for decision in decisions:
        _decisions.add(1, {"state": decision.after.value})
