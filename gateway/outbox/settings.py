"""Settings of the outbox of trajectories."""

from __future__ import annotations

from pydantic import Field

from chassis.settings import Settings


class OutboxSettings(Settings):
    """Settings of the way of learned trajectories to the archive."""

    archive_trajectories: bool = True
    """Store learned trajectories in the archive of the evidence service."""

    archive_outbox_max_bytes: int = Field(1024**3, ge=1024)
    """Bytes of trajectories that wait in the gateway's database for the archive; beyond them, learned trajectories are
    not archived."""
