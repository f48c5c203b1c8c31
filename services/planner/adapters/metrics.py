"""Metrics of the planner: the confidence in steps and executions, and the number of questions."""

from __future__ import annotations

from collections.abc import Iterable

from chassis.telemetry import meter
from services.planner.domain.events import Event, ExecutionFinished, InterventionRequested, StepFinished

_BOUNDARIES = [tenths / 10 for tenths in range(1, 11)]

_steps = meter.create_histogram(
    "hansei.planner.step.confidence",
    unit="1",
    description="Confidence in the results of steps, by status.",
    explicit_bucket_boundaries_advisory=_BOUNDARIES,
)
_executions = meter.create_histogram(
    "hansei.planner.confidence",
    unit="1",
    description="Confidence in executions that ended, by final status.",
    explicit_bucket_boundaries_advisory=_BOUNDARIES,
)
_interventions = meter.create_counter(
    "hansei.planner.interventions", unit="{question}", description="Questions that paused an execution, by level."
)
_guard_checks = meter.create_counter(
    "hansei.planner.guard.checks",
    unit="{call}",
    description="Tool calls by the decision of their guards; unchecked ones were made all the same.",
)


def count_guard_check(decision: str) -> None:
    """Count one check of a tool call."""
    _guard_checks.add(1, {"decision": decision})


def count_events(events: Iterable[Event]) -> None:
    """Count the events written to the log of an execution."""
    for event in events:
        if isinstance(event, StepFinished):
            _steps.record(event.confidence.score, {"status": event.status})
        elif isinstance(event, InterventionRequested):
            _interventions.add(1, {"level": event.request.level.value})
        elif isinstance(event, ExecutionFinished):
            _executions.record(event.result.overall_confidence, {"status": event.result.overall_status.value})
