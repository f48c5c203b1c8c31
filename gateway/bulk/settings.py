"""Settings of bulk learning."""

from __future__ import annotations

from pydantic import Field

from chassis.settings import Settings


class BulkSettings(Settings):
    """How jobs of bulk learning are queued, learned and kept."""

    bulk_executor: str = Field("", max_length=200)
    """Name of this replica, the same after a restart and no other's: it goes on with what it learned when it died.
    Empty: the name of the machine. What a replica leaves that does not come back is taken over by the others."""

    bulk_dataset_concurrency: int = Field(4, ge=1, le=64)
    """Trajectories of one dataset that jobs learn at once, over all replicas."""

    bulk_concurrency: int = Field(8, ge=1, le=256)
    """Trajectories that jobs learn at once in this process."""

    bulk_max_waiting: int = Field(100_000, ge=1)
    """Trajectories that may wait, over all jobs; more are refused with RESOURCE_EXHAUSTED."""

    bulk_max_waiting_bytes: int = Field(1024 * 1024 * 1024, ge=1024)
    """Bytes of trajectories that may wait, over all jobs; more are refused with RESOURCE_EXHAUSTED."""

    bulk_attempts: int = Field(5, ge=1, le=100)
    """How often a trajectory of a job is tried before it becomes a dead letter."""

    bulk_retry_base_seconds: float = Field(1.0, gt=0)
    """Seconds of the first pause between attempts; it doubles with each, and is shortened by up to a half at random."""

    bulk_retry_max_seconds: float = Field(60.0, gt=0)
    """Seconds a pause between attempts may last."""

    bulk_lease_seconds: float = Field(30.0, ge=0.2)
    """Seconds after which others take over what a replica that died was learning."""

    bulk_retention_hours: float = Field(168.0, gt=0)
    """Hours for which a job is kept after it ended."""
