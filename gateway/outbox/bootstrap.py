"""Composition of the outbox of trajectories."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from sqlalchemy.engine import URL

from gateway.outbox.adapters.metrics import count_result
from gateway.outbox.adapters.sql.repository import OutboxRepository
from gateway.outbox.settings import OutboxSettings
from gateway.outbox.usecases.deliver_trajectories import TrajectoryOutbox
from gateway.outbox.usecases.ports import ArchivePort


@dataclass(frozen=True, slots=True)
class Outbox:
    """The outbox of one gateway."""

    repository: OutboxRepository
    trajectories: TrajectoryOutbox

    async def open(self) -> None:
        """Open the database. Raises StoreUnavailable, SchemaNewer."""
        await self.trajectories.open()

    async def close(self) -> None:
        """Close the database. Waiting trajectories are delivered after the next start, or by another replica."""
        await self.repository.database.close()


def build_outbox(settings: OutboxSettings, database_url: URL, executor: str, archive: ArchivePort) -> Outbox:
    """Return the outbox; `executor` names this replica, empty: the host name. Raises the errors of `Database`."""
    repository = OutboxRepository(database_url, executor or socket.gethostname())
    trajectories = TrajectoryOutbox(repository, archive, settings.archive_outbox_max_bytes, count=count_result)
    return Outbox(repository, trajectories)
