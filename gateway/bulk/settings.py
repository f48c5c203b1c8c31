"""Settings of bulk learning."""

from __future__ import annotations

from pydantic import Field

from chassis.settings import Settings


class BulkSettings(Settings):
    """Settings of the queue, the learning and the retention of jobs."""

    bulk_executor: str = Field("", max_length=200)
    """Unique name of this replica, the same after a restart: the replica then continues its unfinished batches.
    Empty: the host name. Other replicas take over the batches of a replica that does not return."""

    bulk_dataset_concurrency: int = Field(4, ge=1, le=64)
    """Trajectories of one dataset that jobs learn at once, over all replicas."""

    bulk_concurrency: int = Field(8, ge=1, le=256)
    """Trajectories that jobs learn at once in this process."""

    bulk_max_waiting: int = Field(100_000, ge=1)
    """Trajectories that may wait, of all jobs together; more are refused with RESOURCE_EXHAUSTED."""

    bulk_max_waiting_bytes: int = Field(1024 * 1024 * 1024, ge=1024)
    """Bytes of trajectories that may wait, of all jobs together; more are refused with RESOURCE_EXHAUSTED."""

    bulk_attempts: int = Field(5, ge=1, le=100)
    """Attempts at a trajectory of a job before it becomes a dead letter."""

    bulk_outage_seconds: float = Field(3600.0, ge=0)
    """Seconds after the first failure because of an unavailable service for which such failures do not count as
    attempts."""

    bulk_retry_base_seconds: float = Field(1.0, gt=0)
    """Upper limit of the first pause between attempts, seconds; it doubles with each attempt. Pauses are random."""

    bulk_retry_max_seconds: float = Field(60.0, gt=0)
    """Longest pause between attempts, seconds."""

    bulk_lease_seconds: float = Field(30.0, ge=0.2)
    """Seconds after which other replicas take over the batches of a dead replica."""

    bulk_retention_hours: float = Field(168.0, gt=0)
    """Hours for which an ended job is stored."""
