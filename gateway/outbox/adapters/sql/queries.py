"""SQL statements on trajectories that wait for the archive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select

from gateway.outbox.adapters.sql.schema import outbox
from gateway.outbox.domain.entry import OutboxEntry

_INSERT = insert(outbox)
_OLDEST = (
    select(outbox.c.number, outbox.c.payload)
    .where(or_(outbox.c.executor == bindparam("replica"), outbox.c.added_at < bindparam("left_before")))
    .order_by(outbox.c.number)
    .limit(bindparam("size"))
)


def insert_entry(connection: Connection, executor: str, payload: bytes, now: datetime) -> None:
    """Insert an entry."""
    values = {"executor": executor, "added_at": now, "bytes": len(payload), "payload": payload}
    connection.execute(_INSERT, values)


def sum_bytes(connection: Connection) -> int:
    """Return the bytes of all entries."""
    return int(connection.execute(select(func.coalesce(func.sum(outbox.c.bytes), 0))).scalar_one())


def select_entries(connection: Connection, executor: str, left_before: datetime, limit: int) -> list[OutboxEntry]:
    """Return the oldest entries of a replica, and of all that were added before a time."""
    parameters = {"replica": executor, "left_before": left_before, "size": limit}
    return [OutboxEntry(row.number, bytes(row.payload)) for row in connection.execute(_OLDEST, parameters)]


def delete_entries(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete entries."""
    connection.execute(delete(outbox).where(outbox.c.number.in_(numbers)))
