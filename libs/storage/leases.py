"""Leases in SQL: the permission to work on something for a time, with a fencing token.

A holder renews its lease again and again; each renewal changes the heartbeat. Another process takes the lease over
when the heartbeat has stayed the same for as long as a lease lasts, by its own monotonic clock: wall clocks are never
compared, so a clock that jumps, or is wrong, makes no holder look dead. A new holder gets a higher fencing token;
writes of the older one are conditional on `Leases.is_held` and change nothing. A holder that could not renew for as
long as a lease lasts must stop by itself: `HeldLease.is_valid`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Integer, Table, Text, and_, case, select, update

from libs.storage.engines import get_insert
from libs.storage.timestamps import to_microseconds


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease on `name`. `fence` rises with each new holder; an older one cannot write any more."""

    name: str
    owner: str
    fence: int


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease as its row shows it: free without an `owner`. `heartbeat` changes with each renewal."""

    name: str
    owner: str | None
    fence: int
    heartbeat: int | None


@dataclass(slots=True)
class HeldLease:
    """A lease that this process holds; `renewed_at` is the monotonic time at which its last renewal was begun."""

    lease: Lease
    renewed_at: float
    seconds: float
    clock: Callable[[], float] = time.monotonic

    def is_valid(self) -> bool:
        """Return True while no other process can have taken the lease over."""
        return self.clock() < self.renewed_at + self.seconds


def make_lease_columns() -> tuple[Column[Any], Column[Any], Column[Any]]:
    """Return the columns that make each row of a table something to lease."""
    return (
        Column("owner", Text),
        Column("fence", Integer, nullable=False),
        Column("heartbeat", BigInteger),
    )


class Leases:
    """The leases on the rows of a table with `make_lease_columns`; the column `name` identifies a row."""

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._columns = table.c
        self._name = table.c[name]
        self.free_values = {table.c.owner: None, table.c.heartbeat: None}
        """The values of a row that nobody holds."""

    def is_held(self, lease: Lease) -> ColumnElement[bool]:
        """Return the condition under which the holder of a lease may write."""
        return and_(self._name == lease.name, self._columns.owner == lease.owner, self._columns.fence == lease.fence)

    def list_states(
        self, connection: Connection, *conditions: ColumnElement[bool], limit: int = 1000
    ) -> list[LeaseState]:
        """Return the leases of these rows: the free ones first, then those not renewed for longest."""
        columns = self._columns
        query = select(self._name, columns.owner, columns.fence, columns.heartbeat).where(*conditions)
        query = query.order_by(columns.heartbeat.nulls_first()).limit(limit)
        return [LeaseState(*row) for row in connection.execute(query)]

    def acquire(
        self, connection: Connection, seen: LeaseState, owner: str, now: datetime, *conditions: ColumnElement[bool]
    ) -> Lease | None:
        """Take a lease whose row is still as it was `seen`; None if another process renewed or took it meanwhile."""
        columns = self._columns
        unchanged = (columns.owner == seen.owner, columns.fence == seen.fence, columns.heartbeat == seen.heartbeat)
        statement = (
            update(self._table)
            .where(self._name == seen.name, *unchanged, *conditions)
            .values(owner=owner, fence=columns.fence + 1, heartbeat=to_microseconds(now))
            .returning(columns.fence)
        )
        fence = connection.execute(statement).scalar_one_or_none()
        return None if fence is None else Lease(seen.name, owner, fence)

    def take_by_force(self, connection: Connection, name: str, owner: str, now: datetime) -> Lease:
        """Take the lease, even from another holder; create its row if it is missing."""
        columns, heartbeat = self._columns, to_microseconds(now)
        values = {self._name.name: name, "owner": owner, "fence": 1, "heartbeat": heartbeat}
        statement = get_insert(connection.dialect.name)(self._table).values(values)
        taken = {"owner": owner, "fence": columns.fence + 1, "heartbeat": self._compute_next_heartbeat(now)}
        statement = statement.on_conflict_do_update(index_elements=[self._name], set_=taken)
        return Lease(name, owner, connection.execute(statement.returning(columns.fence)).scalar_one())

    def renew(self, connection: Connection, leases: Iterable[Lease], now: datetime, *returned: str) -> dict[str, Any]:
        """Renew leases. Return the columns `returned` of the leases that are still held, by lease name."""
        columns = [self._name, *(self._columns[name] for name in returned)]
        rows: dict[str, Any] = {}
        for lease in leases:
            renewal = update(self._table).where(self.is_held(lease)).values(heartbeat=self._compute_next_heartbeat(now))
            row = connection.execute(renewal.returning(*columns)).one_or_none()
            if row is not None:
                rows[lease.name] = row
        return rows

    def release(self, connection: Connection, lease: Lease) -> None:
        """Give a lease back, if it is still held: others may take it at once."""
        connection.execute(update(self._table).where(self.is_held(lease)).values(self.free_values))

    def delete(self, connection: Connection, seen: LeaseState) -> None:
        """Delete the row of a lease if its owner, fence and heartbeat are still those `seen`."""
        columns = self._columns
        unchanged = (columns.owner == seen.owner, columns.fence == seen.fence, columns.heartbeat == seen.heartbeat)
        connection.execute(self._table.delete().where(self._name == seen.name, *unchanged))

    def _compute_next_heartbeat(self, now: datetime) -> ColumnElement[int]:
        """Return a heartbeat that differs from the last one, also where the clock stands still or was put back."""
        last, present = self._columns.heartbeat, to_microseconds(now)
        return case((last >= present, last + 1), else_=present)


class LeaseMonitor:
    """Finds the leases of dead holders: their heartbeat stayed the same for as long as a lease lasts."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._unchanged_since: dict[str, tuple[LeaseState, float]] = {}

    def find_free_leases(self, states: Sequence[LeaseState]) -> list[LeaseState]:
        """Return the free leases, and those that were not renewed for as long as a lease lasts.

        `states` are all leases that exist now; the times of those that are missing are forgotten.
        """
        now, before = self._clock(), self._unchanged_since
        self._unchanged_since = {
            state.name: before[state.name] if state.name in before and before[state.name][0] == state else (state, now)
            for state in states
        }
        return [
            state
            for state, since in self._unchanged_since.values()
            if state.owner is None or now - since >= self._seconds
        ]
