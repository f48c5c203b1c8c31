"""Settings of the evidence service."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from chassis.settings import ServiceSettings, create_plain_field


class EvidenceSettings(ServiceSettings):
    """Addresses and storage of the evidence service."""

    listen_address: str = "127.0.0.1:50056"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    curator_addr: str = create_plain_field("127.0.0.1:50051")
    """Address of the curator, `host:port`."""

    search_addr: str = create_plain_field("127.0.0.1:50053")
    """Address of search, `host:port`."""

    evidence_database_url: str = Field("data/evidence.db", min_length=1)
    """Database of trials, servings and outcomes: a file name for SQLite, or a PostgreSQL URL."""

    evidence_response_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the response to a request_id is stored, so that a repeated request changes nothing."""

    evidence_guard_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the calls of guarded sessions and the firings of guards are stored."""

    @property
    def guard_retention(self) -> timedelta:
        """Return the time for which guarded sessions and firings are stored."""
        return timedelta(days=self.evidence_guard_retention_days)

    @property
    def response_retention(self) -> timedelta:
        """Return the time for which the response to a request_id is stored."""
        return timedelta(days=self.evidence_response_retention_days)
