"""What the planner counts: how sure it was of steps and of answers, and how often a person was asked."""

from __future__ import annotations

from collections.abc import Iterable

from chassis.telemetry import meter
from services.planner.domain.events import Event, Finished, InterventionRequested, StepFinished

_SCORES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]

_steps = meter.create_histogram(
    "hansei.planner.step.confidence",
    unit="1",
    description="Confidence in the results of steps, by whether they succeeded.",
    explicit_bucket_boundaries_advisory=_SCORES,
)
_executions = meter.create_histogram(
    "hansei.planner.confidence",
    unit="1",
    description="Confidence in the whole, of executions that ended, by how they ended.",
    explicit_bucket_boundaries_advisory=_SCORES,
)
_interventions = meter.create_counter(
    "hansei.planner.interventions", unit="{question}", description="Questions that paused an execution, by level."
)


def count(events: Iterable[Event]) -> None:
    """Counts what was written to an execution's log."""
    for event in events:
        if isinstance(event, StepFinished):
            _steps.record(event.confidence.score, {"status": event.status})
        elif isinstance(event, InterventionRequested):
            _interventions.add(1, {"level": event.request.level.value})
        elif isinstance(event, Finished):
            _executions.record(event.result.overall_confidence, {"status": event.result.overall_status.value})
