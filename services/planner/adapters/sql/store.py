"""The planner's database: SQLite by default, PostgreSQL beyond one machine (ADR 030)."""

from __future__ import annotations

import asyncio
import secrets as randomness
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, and_, bindparam, case, insert, select, update

from chassis.errors import RequestIdReused
from libs.sql.engines import engine_for, url_of
from libs.sql.migrations import Migrations, upgrade
from services.planner.adapters import measures
from services.planner.adapters.sql import schema
from services.planner.adapters.sql.audits import label, note_audits, one_at_a_time
from services.planner.adapters.sql.codec import FIRST_HASH, chained, micros, packed, unpacked
from services.planner.adapters.sql.failures import LostRace, StoreUnavailable, translated
from services.planner.adapters.sql.queries import selected, summary
from services.planner.adapters.sql.writer import Writer
from services.planner.domain.errors import LeaseLost, PlanAlreadyRun, RunNotFound
from services.planner.domain.events import Event, Recorded, Started
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import apply, replayed
from services.planner.usecases.run import Interleaved
from services.planner.usecases.store import (
    Audit,
    Decide,
    ExecutionStatus,
    Feedback,
    Filter,
    Holding,
    Lease,
    Request,
    Summary,
    status_of,
)

T = TypeVar("T")

_READERS = 4
_START_AGAIN_SECONDS = 0.2
_APPLICATION = "hansei-planner"
_MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), schema.VERSION_TABLE, 0x706C616E6E6572)
_rows, _log = schema.executions, schema.events
# Built once: every step of every execution is written with these.
_LOCKED_ROW = select(_rows).where(_rows.c.execution_id == bindparam("id")).with_for_update()
_NEW_EVENTS = insert(_log)
_ADVANCED_ROW = (
    update(_rows)
    .where(_rows.c.execution_id == bindparam("id"))
    .values({name: bindparam(name) for name in ("sequence", "head_hash", "status", "updated_at", "wake_at")})
)
_NOBODY_DRIVES = {_rows.c.owner: None, _rows.c.lease_until: None}
_ADVANCED_AND_FREED_ROW = _ADVANCED_ROW.values(_NOBODY_DRIVES)


class SqlExecutionStore:
    """Fulfils `ExecutionStore`. Nothing here waits inside a transaction for anything but the database."""

    def __init__(self, place: str) -> None:
        """`place`: a file name for SQLite, or a database URL."""
        self.url = url_of(place)
        self._writing = engine_for(self.url, _APPLICATION, writes=True)
        self._writer = Writer(self._writing)
        self._reading = engine_for(self.url, _APPLICATION, writes=False, connections=_READERS)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="planner-reader")

    async def open(self) -> None:
        """Brings the tables to the newest schema. Errors: StoreUnavailable."""
        await self._threaded(lambda: upgrade(self._writing, _MIGRATIONS))

    async def close(self) -> None:
        """Finishes what is being written and lets go of the database."""
        await self._writer.close()
        self._readers.shutdown(wait=True)
        self._reading.dispose()

    async def _query(self, work: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._reading.begin() as connection:
                return work(connection)

        return await self._threaded(run)

    async def _threaded(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work)
        except Exception as error:
            raise translated(error) from error

    async def create(
        self, started: Started, now: datetime, owner: str, lease_seconds: float, request: Request | None
    ) -> Lease | None:
        """Begins an execution and takes its lease; None for a replay."""
        execution_id = started.plan.plan_id or ""

        def work(connection: Connection) -> Lease | None:
            if _replayed_answer(connection, request) is not None:
                return None
            if _locked(connection, execution_id) is not None:
                raise PlanAlreadyRun(execution_id)
            row = {"execution_id": execution_id, "query": started.plan.original_query[:200], "sequence": 0}
            row |= {"head_hash": FIRST_HASH, "started_at": micros(now), "fence": 1, "owner": owner}
            row |= {"status": "running", "updated_at": micros(now), "lease_until": _until(now, lease_seconds)}
            connection.execute(insert(_rows).values(row))
            state = ExecutionState(started.plan)
            _extend(connection, execution_id, 0, FIRST_HASH, [(started, now)], state)
            _answer_request(connection, request, execution_id, now)
            return Lease(execution_id, owner, 1)

        return await self._writer.run(work)

    async def acquire(self, seen: Holding, owner: str, now: datetime, lease_seconds: float) -> Lease | None:
        """Takes the lease of an execution that is still held, or free, just as it was seen; None if it is not."""
        return await self._writer.run(lambda c: _take_lease(c, seen, owner, now, lease_seconds))

    async def renew(self, leases: Sequence[Lease], now: datetime, lease_seconds: float) -> dict[str, int]:
        """Prolongs leases; the sequence number of each execution whose lease is still held."""

        def work(connection: Connection) -> dict[str, int]:
            held = {}
            until, before = _until(now, lease_seconds), _rows.c.lease_until
            # Also where the clock stands still or was put back each renewal is another mark.
            mark = case((before >= until, before + 1), else_=until)
            for lease in leases:
                renewed = update(_rows).where(_held(lease)).values(lease_until=mark)
                sequence = connection.execute(renewed.returning(_rows.c.sequence)).scalar_one_or_none()
                if sequence is not None:
                    held[lease.execution_id] = sequence
            return held

        return await self._writer.run(work)

    async def release(self, lease: Lease) -> None:
        """Gives a lease back, if it is still held."""
        statement = update(_rows).where(_held(lease)).values(_NOBODY_DRIVES)
        await self._writer.run(lambda connection: connection.execute(statement) and None)

    async def append(
        self, lease: Lease, events: Sequence[tuple[Event, datetime]], after: int, state: ExecutionState
    ) -> None:
        """Appends under a lease; `state` is the state with the events."""
        status, wake_at = status_of(state), state.expires_at

        def work(connection: Connection) -> None:
            row = _locked(connection, lease.execution_id)
            if row is None or (row.owner, row.fence) != (lease.owner, lease.fence):
                raise LeaseLost(lease.execution_id)
            if row.sequence != after:
                raise Interleaved
            _write(connection, lease.execution_id, after, row.head_hash, events, status, wake_at)

        await self._writer.run(work)
        measures.count(event for event, _ in events)

    async def decide(
        self,
        execution_id: str,
        decision: Decide,
        now: datetime,
        owner: str,
        lease_seconds: float,
        request: Request | None = None,
    ) -> tuple[int, Lease | None]:
        """Appends what `decision` makes of the state as it is in this very transaction."""

        def work(connection: Connection) -> tuple[int, Lease | None]:
            row = _locked(connection, execution_id)
            if row is None:
                raise RunNotFound(execution_id)
            answer = _replayed_answer(connection, request)
            if answer is not None:
                return int(answer), None
            recorded = _read(connection, execution_id, 0)
            state = replayed(recorded)
            change = decision(state, recorded)
            # Time never runs backwards in a log, even when the clock does.
            time = max(now, recorded[-1].created_at)
            events = [(event, time) for event in change.events]
            last = _extend(connection, execution_id, row.sequence, row.head_hash, events, state)
            _answer_request(connection, request, str(last), now)
            take = change.take_lease and state.result is None and not state.is_paused
            free = Holding(execution_id, None, row.fence, None)
            return last, _take_lease(connection, free, owner, now, lease_seconds) if take else None

        return await self._writer.run(work)

    async def read(self, execution_id: str, after: int = 0) -> Sequence[Recorded]:
        """The log after a sequence number, its chain of hashes checked."""

        def work(connection: Connection) -> Sequence[Recorded]:
            found = _read(connection, execution_id, after)
            if not found and _row(connection, execution_id) is None:
                raise RunNotFound(execution_id)
            return found

        return await self._query(work)

    async def listed(self, wanted: Filter) -> Sequence[Summary]:
        """Executions, newest first."""
        return await self._query(lambda connection: [summary(r) for r in connection.execute(selected(wanted))])

    async def due(self, now: datetime, limit: int) -> Sequence[str]:
        """Paused executions whose question has expired."""
        found = select(_rows.c.execution_id).where(_rows.c.wake_at <= micros(now)).order_by(_rows.c.wake_at)
        return await self._query(lambda connection: connection.execute(found.limit(limit)).scalars().all())

    async def running(self, limit: int) -> Sequence[Holding]:
        """Running executions, those that nobody drives first, then those that were not renewed for longest."""
        found = select(_rows.c.execution_id, _rows.c.owner, _rows.c.fence, _rows.c.lease_until)
        found = found.where(_rows.c.status == "running").order_by(_rows.c.lease_until.nulls_first()).limit(limit)
        return await self._query(lambda connection: [Holding(*row) for row in connection.execute(found)])

    async def add_feedback(self, record: Feedback, now: datetime, request: Request | None) -> bool:
        """Keeps a record, and labels the audit of its step; False for a replay."""

        def work(connection: Connection) -> bool:
            if _replayed_answer(connection, request) is not None:
                return False
            one_at_a_time(connection)
            connection.execute(insert(schema.feedback).values(**asdict(record), created_at=micros(now)))
            label(connection, record)
            _answer_request(connection, request, "", now)
            return True

        return await self._writer.run(work)

    async def all_feedback(self, after: int = 0) -> Sequence[tuple[int, Feedback]]:
        """Feedback records after a number, oldest first."""
        table = schema.feedback
        statement = select(table).where(table.c.number > after).order_by(table.c.number)

        def work(connection: Connection) -> Sequence[tuple[int, Feedback]]:
            return [
                (r.number, Feedback(r.confidence, r.correct, r.audit_probability, r.execution_id, r.step_id))
                for r in connection.execute(statement)
            ]

        return await self._query(work)

    async def audits(self, after: int = 0) -> Sequence[Audit]:
        """Audits after a number, in the order of the decisions."""
        table = schema.audits
        statement = select(table).where(table.c.number > after).order_by(table.c.number)
        return await self._query(
            lambda connection: [
                Audit(r.number, r.score, r.probability, r.floor, r.wrong) for r in connection.execute(statement)
            ]
        )

    async def answer_key(self) -> bytes:
        """The secret that answer tokens are made with: made once, the same for all replicas."""

        def work(connection: Connection) -> bytes:
            table = schema.secrets
            found: bytes | None = connection.execute(
                select(table.c.value).where(table.c.name == "answers").with_for_update()
            ).scalar_one_or_none()
            if found is None:
                found = randomness.token_bytes(32)
                connection.execute(insert(table).values(name="answers", value=found))
            return found

        return await _again(lambda: self._writer.run(work))


async def _again(work: Callable[[], Awaitable[T]]) -> T:
    """What `work` gives at the second or third try, if replicas that start together both make the same row."""
    for _ in range(2):
        try:
            return await work()
        except (LostRace, StoreUnavailable):
            await asyncio.sleep(_START_AGAIN_SECONDS)
    return await work()


def _until(now: datetime, seconds: float) -> int:
    return micros(now + timedelta(seconds=seconds))


def _held(lease: Lease) -> Any:
    return and_(_rows.c.execution_id == lease.execution_id, _rows.c.owner == lease.owner, _rows.c.fence == lease.fence)


def _row(connection: Connection, execution_id: str) -> Any:
    return connection.execute(select(_rows).where(_rows.c.execution_id == execution_id)).one_or_none()


def _locked(connection: Connection, execution_id: str) -> Any:
    """The row of an execution, locked until the transaction ends; None if there is none."""
    return connection.execute(_LOCKED_ROW, {"id": execution_id}).one_or_none()


def _read(connection: Connection, execution_id: str, after: int) -> list[Recorded]:
    own = _log.c.execution_id == execution_id
    before = select(_log.c.hash).where(own, _log.c.sequence == after)
    previous = FIRST_HASH if after == 0 else connection.execute(before).scalar_one_or_none() or FIRST_HASH
    statement = select(_log).where(own, _log.c.sequence > after).order_by(_log.c.sequence)
    return unpacked(execution_id, connection.execute(statement), previous, after)


def _extend(
    connection: Connection,
    execution_id: str,
    after: int,
    head: bytes,
    events: Sequence[tuple[Event, datetime]],
    state: ExecutionState,
) -> int:
    """Applies events to `state` and writes them; the last sequence number."""
    for event, time in events:
        apply(state, event, time)
    if events:
        _write(connection, execution_id, after, head, events, status_of(state), state.expires_at)
    return after + len(events)


def _write(
    connection: Connection,
    execution_id: str,
    after: int,
    head: bytes,
    events: Sequence[tuple[Event, datetime]],
    status: ExecutionStatus,
    wake_at: datetime | None,
) -> None:
    rows = []
    for sequence, (event, time) in enumerate(events, start=after + 1):
        payload, created_at = packed(event), micros(time)
        head = chained(head, execution_id, sequence, created_at, event.kind, payload)
        row = {"execution_id": execution_id, "sequence": sequence, "created_at": created_at}
        rows.append(row | {"kind": event.kind, "payload": payload, "hash": head})
    connection.execute(_NEW_EVENTS, rows)
    note_audits(connection, execution_id, events)
    values = {"id": execution_id, "sequence": after + len(rows), "head_hash": head, "status": status.value}
    values |= {"updated_at": micros(events[-1][1]), "wake_at": None if wake_at is None else micros(wake_at)}
    advanced = _ADVANCED_ROW if status is ExecutionStatus.RUNNING else _ADVANCED_AND_FREED_ROW
    connection.execute(advanced, values)


def _take_lease(connection: Connection, seen: Holding, owner: str, now: datetime, seconds: float) -> Lease | None:
    """The lease, if the row still says what was `seen`: whoever renewed or took it meanwhile keeps it."""
    same = (_rows.c.owner == seen.owner, _rows.c.fence == seen.fence, _rows.c.lease_until == seen.mark)
    statement = (
        update(_rows)
        .where(_rows.c.execution_id == seen.execution_id, _rows.c.status == "running", *same)
        .values(owner=owner, fence=_rows.c.fence + 1, lease_until=_until(now, seconds))
        .returning(_rows.c.fence)
    )
    fence = connection.execute(statement).scalar_one_or_none()
    return None if fence is None else Lease(seen.execution_id, owner, fence)


def _replayed_answer(connection: Connection, request: Request | None) -> str | None:
    """The answer this request got before; None if it is new. RequestIdReused if its content was another."""
    if request is None:
        return None
    table = schema.requests
    row = connection.execute(select(table).where(table.c.request_id == request.key)).one_or_none()
    if row is None:
        return None
    if row.fingerprint != request.fingerprint:
        raise RequestIdReused(request.request_id)
    answer: str = row.answer
    return answer


def _answer_request(connection: Connection, request: Request | None, answer: str, now: datetime) -> None:
    if request is not None:
        row = {"request_id": request.key, "fingerprint": request.fingerprint, "answer": answer}
        connection.execute(insert(schema.requests).values(row | {"created_at": micros(now)}))
