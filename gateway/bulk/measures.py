"""What operators see of bulk learning: jobs and trajectories by state, and how long attempts take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from chassis import telemetry
from gateway.bulk.records import Ending, Stock

# An attempt is a Learn: by rules it takes milliseconds, with a model up to minutes.
_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]


class Measures:
    """Measures what this process learns, and tells how the jobs stand that all replicas share."""

    def __init__(self, meter: Meter = telemetry.meter) -> None:
        self._stock = Stock({}, {})
        self._attempts = meter.create_histogram(
            "hansei.bulk.attempt.duration",
            unit="s",
            description="How long attempts at learning a trajectory of a job took, by what they ended in.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        meter.create_observable_gauge(
            "hansei.bulk.jobs", [_by_state(lambda: self._stock.jobs)], unit="{job}", description="Jobs by state."
        )
        meter.create_observable_gauge(
            "hansei.bulk.trajectories",
            [_by_state(lambda: self._stock.trajectories)],
            unit="{trajectory}",
            description="Trajectories of jobs by state.",
        )

    def attempted(self, ending: Ending, seconds: float) -> None:
        """Counts one attempt."""
        self._attempts.record(seconds, {"outcome": ending.value})

    def took_stock(self, stock: Stock) -> None:
        """Takes over how the jobs stand."""
        self._stock = stock


def _by_state(counts: Callable[[], Mapping[str, int]]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observed(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {"state": state}) for state, count in counts().items()]

    return observed
