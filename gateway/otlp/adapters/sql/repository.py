"""Traces in the gateway's database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from gateway.otlp.adapters.sql import queries
from gateway.otlp.domain.errors import TraceStoreFull
from gateway.otlp.domain.trace import StoredTrace, StoreResult, TraceKey, TraceLimits, TracePart, TraceState
from libs.storage.database import Database
from libs.storage.timestamps import utc_now

CLAIM = timedelta(minutes=1)
"""Time for which a replica works on a trace before others may."""
_AT_ONCE = 100
_KEY = "otlp"
"""Exports take turns, so that no two transactions lock the same traces in another order."""


class TraceRepository:
    """Implements `TraceStore`."""

    def __init__(self, database: Database, limits: TraceLimits, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._limits = limits
        self._clock = clock

    async def add_parts(self, tenant: str, parts: Sequence[TracePart]) -> list[StoreResult]:
        """Store parts, all of them or none. They are on disk when this returns. Raises TraceStoreFull."""
        now = self._clock()
        size = sum(len(part.payload) for part in parts)

        def add(connection: Connection) -> list[StoreResult]:
            self._free_capacity(connection, size, now)
            # All transactions lock traces in one order.
            order = sorted(range(len(parts)), key=lambda index: (parts[index].key.dataset, parts[index].key.trace_id))
            results = {index: self._add_part(connection, tenant, parts[index], now) for index in order}
            return [results[index] for index in range(len(parts))]

        return await self._database.write(add, _KEY)

    def _free_capacity(self, connection: Connection, size: int, now: datetime) -> None:
        """Delete the parts of learned traces, oldest first, until `size` more bytes fit. Raises TraceStoreFull."""
        stored = queries.sum_bytes(connection)
        while stored + size > self._limits.total_bytes:
            settled = queries.select_settled(connection, _AT_ONCE)
            if not settled:
                raise TraceStoreFull(stored, self._limits.total_bytes)
            for key, bytes_ in settled:
                self._mark_as_given_up(connection, key, now)
                stored -= bytes_
                if stored + size <= self._limits.total_bytes:
                    break

    def _add_part(self, connection: Connection, tenant: str, part: TracePart, now: datetime) -> StoreResult:
        row = queries.lock_trace(connection, part.key)
        if row is None:
            queries.insert_trace(connection, part.key, tenant, now)
            row = queries.lock_trace(connection, part.key)
        state = TraceState(row.state)
        if state is TraceState.GIVEN_UP or (state is TraceState.LEARNED and not part.is_evaluation):
            return StoreResult.LATE
        size = row.bytes + len(part.payload)
        if size > self._limits.trace_bytes:
            if state is TraceState.OPEN:
                self._mark_as_given_up(connection, part.key, now)
            return StoreResult.TOO_LARGE
        root_ended = row.root_ended or part.has_root
        queries.update_trace(
            connection,
            part.key,
            bytes=size,
            root_ended=root_ended,
            last_number=queries.insert_part(connection, part),
            due_at=self._limits.compute_due_time(now, root_ended=root_ended or state is TraceState.LEARNED),
            changed_at=now,
        )
        return StoreResult.STORED

    def _mark_as_given_up(self, connection: Connection, key: TraceKey, now: datetime) -> None:
        queries.delete_parts(connection, key)
        queries.update_trace(connection, key, state=TraceState.GIVEN_UP.value, bytes=0, due_at=None, changed_at=now)

    async def find_datasets(self, tenant: str, trace_ids: Sequence[str]) -> dict[str, str]:
        """Return the datasets of the stored traces of a tenant, by trace id."""
        return await self._database.read(queries.select_datasets, tenant, trace_ids)

    async def claim_due(self) -> StoredTrace | None:
        """Return the trace that has waited longest, for this replica alone for a minute; None if none is due."""
        now = self._clock()

        def claim(connection: Connection) -> StoredTrace | None:
            row = queries.select_first_due(connection, now)
            if row is None:
                return None
            key = TraceKey(row.dataset, row.trace_id)
            queries.update_trace(connection, key, due_at=now + CLAIM)
            parts = queries.select_parts(connection, key)
            return StoredTrace(key, row.tenant, TraceState(row.state), parts, row.last_number)

        return await self._database.write(claim, _KEY)

    async def finish(self, trace: StoredTrace, state: TraceState) -> None:
        """Set the state of a claimed trace; a part that arrived meanwhile makes it due again."""
        now = self._clock()

        def finish_trace(connection: Connection) -> None:
            row = queries.lock_trace(connection, trace.key)
            if row is None:
                return
            if state is TraceState.GIVEN_UP:
                self._mark_as_given_up(connection, trace.key, now)
            else:
                due_at = row.due_at if row.last_number > trace.last_number else None
                queries.update_trace(connection, trace.key, state=state.value, due_at=due_at, changed_at=now)

        await self._database.write(finish_trace, _KEY)

    async def postpone(self, trace: StoredTrace, seconds: float) -> None:
        """Make a claimed trace due again later."""
        due_at = self._clock() + timedelta(seconds=seconds)
        await self._database.write(lambda connection: queries.update_trace(connection, trace.key, due_at=due_at), _KEY)

    async def find_next_due(self) -> datetime | None:
        """Return the time at which the next trace is due; None if none waits."""
        return await self._database.read(queries.select_next_due)

    async def delete_expired(self) -> int:
        """Delete traces whose retention is over; return how many."""
        before = self._clock() - self._limits.retention

        def delete(connection: Connection) -> int:
            expired = queries.select_settled(connection, _AT_ONCE, before)
            for key, _ in expired:
                queries.delete_trace(connection, key)
            return len(expired)

        return await self._database.write(delete, _KEY)
