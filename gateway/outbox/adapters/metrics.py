"""Metrics of the outbox."""

from __future__ import annotations

from chassis.telemetry import meter
from gateway.outbox.usecases.deliver_trajectories import DeliveryResult

_trajectories = meter.create_counter(
    "hansei.outbox.trajectories",
    unit="{trajectory}",
    description="Learned trajectories that were sent to the archive, by outcome.",
)


def count_result(result: DeliveryResult) -> None:
    """Count one trajectory."""
    _trajectories.add(1, {"outcome": result.value})
