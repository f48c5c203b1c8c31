"""Metrics of bulk learning: jobs and trajectories by state, and the duration of attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from chassis import telemetry
from gateway.bulk.domain.attempts import AttemptResult
from gateway.bulk.domain.job import JobTotals

# An attempt is a Learn: by rules it takes milliseconds, with a model up to minutes.
_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]


class BulkMetrics:
    """Counts the attempts of this process, and reports the jobs that all replicas share."""

    def __init__(self, meter: Meter = telemetry.meter) -> None:
        self._totals = JobTotals({}, {})
        self._attempts = meter.create_histogram(
            "hansei.bulk.attempt.duration",
            unit="s",
            description="Duration of attempts to learn a trajectory of a job, by result.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        meter.create_observable_gauge(
            "hansei.bulk.jobs",
            [_observe_by_state(lambda: self._totals.jobs)],
            unit="{job}",
            description="Jobs by state.",
        )
        meter.create_observable_gauge(
            "hansei.bulk.trajectories",
            [_observe_by_state(lambda: self._totals.trajectories)],
            unit="{trajectory}",
            description="Trajectories of jobs by state.",
        )

    def record_attempt(self, result: AttemptResult, seconds: float) -> None:
        """Count one attempt."""
        self._attempts.record(seconds, {"outcome": result.value})

    def record_totals(self, totals: JobTotals) -> None:
        """Set the totals that the gauges report."""
        self._totals = totals


def _observe_by_state(counts: Callable[[], Mapping[str, int]]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {"state": state}) for state, count in counts().items()]

    return observe
