"""Trajectories that wait for the archive, in the gateway's database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from gateway.outbox.adapters.sql import queries
from gateway.outbox.domain.entry import OutboxEntry
from libs.storage.database import Database
from libs.storage.timestamps import utc_now

LEFT_AFTER = timedelta(minutes=1)
"""Time after which other replicas deliver the entries of a replica."""
_KEY = "outbox"
"""The key of all writes."""


class OutboxRepository:
    """Implements `EntryStore`; `executor` is the name of this replica."""

    def __init__(self, database: Database, executor: str, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._executor = executor
        self._clock = clock

    async def add(self, payload: bytes) -> None:
        """Store a request. It is on disk when this returns."""
        now = self._clock()
        await self._database.write(
            lambda connection: queries.insert_entry(connection, self._executor, payload, now), _KEY
        )

    async def sum_bytes(self) -> int:
        """Return the bytes of all entries that wait."""
        return await self._database.read(queries.sum_bytes)

    async def list_entries(self, limit: int) -> list[OutboxEntry]:
        """Return the oldest entries of this replica, and those of replicas that do not deliver theirs."""
        left_before = self._clock() - LEFT_AFTER
        return await self._database.read(queries.select_entries, self._executor, left_before, limit)

    async def delete(self, numbers: Sequence[int]) -> None:
        """Delete requests that were delivered, or given up."""
        await self._database.write(lambda connection: queries.delete_entries(connection, numbers), _KEY)
