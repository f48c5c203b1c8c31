"""SQL statements on traces and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from gateway.otlp.adapters.sql.schema import part, trace
from gateway.otlp.domain.trace import PartKind, TraceKey, TracePart, TraceState

_TOTAL = select(func.coalesce(func.sum(trace.c.bytes), 0))


def sum_bytes(connection: Connection) -> int:
    """Return the bytes of all stored parts."""
    return int(connection.execute(_TOTAL).scalar_one())


def lock_trace(connection: Connection, key: TraceKey) -> Any:
    """Return the row of a trace, locked; None without one."""
    return connection.execute(select(trace).where(_is_trace(key)).with_for_update()).one_or_none()


def insert_trace(connection: Connection, key: TraceKey, tenant: str, now: datetime) -> None:
    """Insert an open trace without parts."""
    row = {"dataset": key.dataset, "trace_id": key.trace_id, "tenant": tenant, "state": TraceState.OPEN.value}
    connection.execute(
        insert(trace), {**row, "root_ended": False, "bytes": 0, "last_number": 0, "due_at": None, "changed_at": now}
    )


def update_trace(connection: Connection, key: TraceKey, **values: Any) -> None:
    """Set columns of a trace."""
    connection.execute(update(trace).where(_is_trace(key)).values(**values))


def insert_part(connection: Connection, new: TracePart) -> int:
    """Insert a part, and return its number."""
    row = {"dataset": new.key.dataset, "trace_id": new.key.trace_id, "kind": new.kind.value, "payload": new.payload}
    return int(connection.execute(insert(part).returning(part.c.number), row).scalar_one())


def select_parts(connection: Connection, key: TraceKey) -> list[tuple[PartKind, bytes]]:
    """Return the parts of a trace in the order of their arrival."""
    query = select(part.c.kind, part.c.payload).where(_matches_part(key)).order_by(part.c.number)
    return [(PartKind(row.kind), bytes(row.payload)) for row in connection.execute(query)]


def delete_parts(connection: Connection, key: TraceKey) -> None:
    """Delete the parts of a trace."""
    connection.execute(delete(part).where(_matches_part(key)))


def delete_trace(connection: Connection, key: TraceKey) -> None:
    """Delete a trace with its parts."""
    delete_parts(connection, key)
    connection.execute(delete(trace).where(_is_trace(key)))


def select_first_due(connection: Connection, now: datetime) -> Any:
    """Return the row of the trace that is due longest, locked; None without one."""
    query = select(trace).where(trace.c.due_at <= now).order_by(trace.c.due_at).limit(1)
    return connection.execute(query.with_for_update(skip_locked=True)).one_or_none()


def select_next_due(connection: Connection) -> datetime | None:
    """Return the earliest time at which a trace is due."""
    result: datetime | None = connection.execute(
        select(trace.c.due_at).where(trace.c.due_at.is_not(None)).order_by(trace.c.due_at).limit(1)
    ).scalar_one_or_none()
    return result


def select_datasets(connection: Connection, tenant: str, trace_ids: Sequence[str]) -> dict[str, str]:
    """Return the datasets of the traces of a tenant, by trace id."""
    query = select(trace.c.trace_id, trace.c.dataset).where(trace.c.tenant == tenant, trace.c.trace_id.in_(trace_ids))
    return {row.trace_id: row.dataset for row in connection.execute(query)}


def select_settled(connection: Connection, limit: int, before: datetime | None = None) -> list[tuple[TraceKey, int]]:
    """Return traces for which nothing is to be done, oldest first, with their bytes.

    With `before`: only those that have not changed since; else only those with bytes.
    """
    condition = trace.c.bytes > 0 if before is None else trace.c.changed_at < before
    query = select(trace).where(trace.c.due_at.is_(None), condition).order_by(trace.c.changed_at).limit(limit)
    return [(TraceKey(row.dataset, row.trace_id), row.bytes) for row in connection.execute(query)]


def _is_trace(key: TraceKey) -> ColumnElement[bool]:
    return and_(trace.c.dataset == key.dataset, trace.c.trace_id == key.trace_id)


def _matches_part(key: TraceKey) -> ColumnElement[bool]:
    return and_(part.c.dataset == key.dataset, part.c.trace_id == key.trace_id)
