"""Composition of the outbox of trajectories."""

from __future__ import annotations

import socket

from gateway.outbox.adapters.metrics import count_result
from gateway.outbox.adapters.sql.repository import OutboxRepository
from gateway.outbox.settings import OutboxSettings
from gateway.outbox.usecases.deliver_trajectories import TrajectoryOutbox
from gateway.outbox.usecases.ports import ArchivePort
from libs.storage.database import Database


def build_outbox(
    settings: OutboxSettings, database: Database, executor: str, archive: ArchivePort, max_message_bytes: int
) -> TrajectoryOutbox:
    """Return the outbox; `executor` names this replica, empty: the host name."""
    repository = OutboxRepository(database, executor or socket.gethostname())
    return TrajectoryOutbox(
        repository,
        archive,
        settings.archive_outbox_max_bytes,
        max_message_bytes=max_message_bytes,
        count=count_result,
    )
