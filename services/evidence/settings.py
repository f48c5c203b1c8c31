"""Settings of the evidence service."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from chassis.settings import ServiceSettings, create_plain_field
from services.evidence.domain.archive import Retention
from services.evidence.usecases.archive import ArchiveLimits


class EvidenceSettings(ServiceSettings):
    """Addresses and storage of the evidence service."""

    listen_address: str = "127.0.0.1:50056"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    curator_addr: str = create_plain_field("127.0.0.1:50051")
    """Address of the curator, `host:port`."""

    search_addr: str = create_plain_field("127.0.0.1:50053")
    """Address of search, `host:port`; several replicas as a DNS name that resolves to all of them, or as
    `ipv4:HOST:PORT,HOST:PORT`."""

    evidence_database_url: str = Field("data/evidence.db", min_length=1)
    """Database of trials, servings, outcomes and trajectories: a file name for SQLite, or a PostgreSQL URL."""

    evidence_response_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the response to a request_id is stored, so that a repeated request changes nothing."""

    evidence_guard_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the calls of guarded sessions and the firings of guards are stored. PostgreSQL drops them by
    weeks, up to seven days later."""

    evidence_housekeeping_seconds: float = Field(10.0, ge=0.1, le=3600)
    """Seconds between two scans for trajectories beyond their retention, and for deleted datasets."""

    evidence_retention_days: int = Field(365, ge=1, le=36500)
    """Days for which a trajectory is stored, unless its dataset has a retention of its own."""

    evidence_retention_bytes: int = Field(2 * 1024**3, ge=1024)
    """Compressed bytes of trajectories of a dataset above which the oldest are deleted, unless it has its own limit."""

    evidence_archive_max_bytes: int = Field(20 * 1024**3, ge=1024)
    """Compressed bytes of all trajectories together; more are refused with RESOURCE_EXHAUSTED."""

    evidence_trajectory_max_bytes: int = Field(8 * 1024**2, ge=1024, le=64 * 1024**2)
    """Largest trajectory that is stored, bytes before compression."""

    evidence_object_store_url: str = ""
    """Object store of large trajectories: `s3://bucket/path`, `gs://…`, `az://…` or `file:///folder`, with the
    credentials that the store's own tools read from the environment. Empty: all are in the database."""

    evidence_object_min_bytes: int = Field(256 * 1024, ge=0)
    """Compressed bytes above which a trajectory goes to the object store."""

    @property
    def guard_retention(self) -> timedelta:
        """Return the time for which guarded sessions and firings are stored."""
        return timedelta(days=self.evidence_guard_retention_days)

    @property
    def response_retention(self) -> timedelta:
        """Return the time for which the response to a request_id is stored."""
        return timedelta(days=self.evidence_response_retention_days)

    @property
    def archive_limits(self) -> ArchiveLimits:
        """Return the limits of the archive."""
        return ArchiveLimits(
            self.evidence_trajectory_max_bytes,
            self.evidence_archive_max_bytes,
            self.evidence_object_min_bytes,
            Retention(self.evidence_retention_days, self.evidence_retention_bytes),
        )
