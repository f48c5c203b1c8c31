"""The ports of the outbox."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gateway.outbox.domain.entry import OutboxEntry
from hansei.evidence.v1 import archive_service_pb2 as archive_pb


class EntryStore(Protocol):
    """Stores requests of the archive until they are delivered."""

    async def add(self, payload: bytes) -> None:
        """Store a request. It is on disk when this returns."""

    async def sum_bytes(self) -> int:
        """Return the bytes of all entries that wait."""

    async def list_entries(self, limit: int) -> list[OutboxEntry]:
        """Return the oldest entries of this replica, and those of replicas that do not deliver theirs."""

    async def delete(self, numbers: Sequence[int]) -> None:
        """Delete requests that were delivered, or given up."""


class ArchivePort(Protocol):
    """The archive of the evidence service."""

    def StoreTrajectory(  # noqa: N802
        self, request: archive_pb.StoreTrajectoryRequest, /
    ) -> Awaitable[archive_pb.StoreTrajectoryResponse]:
        """Store a trajectory once."""
