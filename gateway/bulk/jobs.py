"""Jobs as their owners see them: submitted, looked at, cancelled, tried again, forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from chassis.errors import RequestIdReused
from gateway.bulk import schema
from gateway.bulk.database import JobsDatabase
from gateway.bulk.errors import JobNotFound, QueueFull
from gateway.bulk.records import Stock, microseconds, moment_of, utc_now
from gateway.bulk.schema import DEAD, DROPPED, WAITING
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service

FULL_RETRY_SECONDS = 30.0
REQUEUE_AFTER = timedelta(seconds=60)
"""How long whoever changed a job has to queue its batches, before others do it."""

_job, _run = schema.job, schema.trajectory
_COUNTS = ("waiting", "learned", "dead", "dropped")


def _name(state: bulk.JobState.ValueType) -> str:
    return bulk.JobState.Name(state).removeprefix("JOB_STATE_").lower()


_STATES = [_name(state) for state in bulk.JobState.values() if state]


@dataclass(frozen=True, slots=True)
class Room:
    """How much may wait over all jobs: trajectories, and bytes of them."""

    trajectories: int
    bytes: int


class Jobs:
    """The jobs in the database. All methods raise JobsUnavailable and JobsCorrupt."""

    def __init__(self, database: JobsDatabase, room: Room, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._room = room
        self._clock = clock

    async def begin(self, key: str, head: service.JobHead) -> None:
        """Begin to take a submission, under a key of its own."""
        values = dict.fromkeys(
            ("total", "waiting", "waiting_bytes", "learned", "unchanged", "dead", "dropped", "edits", "votes"), 0
        )
        iterations = head.max_iterations if head.HasField("max_iterations") else None
        statement = insert(_job).values(
            key=key,
            job_id=head.request_id,
            dataset=head.dataset,
            max_iterations=iterations,
            fingerprint="",
            created_at=self._now(),
            cancelled=False,
            generation=0,
            requeue_at=0,
            revision=0,
            **values,
        )
        await self._database.transaction(lambda connection: connection.execute(statement))

    async def stage(self, key: str, first: int, trajectories: Sequence[bulk.QueuedTrajectory]) -> None:
        """Keep more trajectories of a submission, from position `first` on. Raises QueueFull."""
        rows = [_row(key, first + number, item) for number, item in enumerate(trajectories)]
        size = sum(row["bytes"] for row in rows)

        def work(connection: Connection) -> None:
            sums = select(
                func.coalesce(func.sum(_job.c.waiting), 0), func.coalesce(func.sum(_job.c.waiting_bytes), 0)
            ).where(_job.c.waiting > 0)
            waiting, waiting_bytes = connection.execute(sums).one()
            self._room_for(int(waiting), int(waiting_bytes), len(rows), size)
            connection.execute(insert(_run), rows)
            counted = {
                "total": _job.c.total + len(rows),
                "waiting": _job.c.waiting + len(rows),
                "waiting_bytes": _job.c.waiting_bytes + size,
            }
            connection.execute(update(_job).where(_job.c.key == key).values(**counted))

        await self._database.transaction(work)

    def _room_for(self, waiting: int, waiting_bytes: int, more: int, more_bytes: int) -> None:
        room = self._room
        if waiting + more > room.trajectories:
            what = f"{waiting} trajectories wait, and {more} more would exceed {room.trajectories}"
        elif waiting_bytes + more_bytes > room.bytes:
            what = f"{waiting_bytes} bytes of trajectories wait, and {more_bytes} more would exceed {room.bytes}"
        else:
            return
        raise QueueFull(
            f"{what}; nothing of this job was queued, submit it again later", retry_after=FULL_RETRY_SECONDS
        )

    async def accept(self, key: str, job_id: str, fingerprint: str) -> bool:
        """Make a complete submission a job; whether it is one now. False: the job was there already, as submitted.

        Raises RequestIdReused if the job that was there is another one.
        """
        now = self._clock()
        taken = {"accepted_at": microseconds(now), "fingerprint": fingerprint, "requeue_at": _soon(now)}

        def work(connection: Connection) -> None:
            connection.execute(update(_job).where(_job.c.key == key).values(**taken))

        try:
            await self._database.transaction(work)
        except IntegrityError:
            await self.discard(key)
            return not await self.known(job_id, fingerprint)
        return True

    async def known(self, job_id: str, fingerprint: str | None = None) -> bool:
        """Whether a job is there. Raises RequestIdReused if it was submitted with another `fingerprint`."""
        query = select(_job.c.fingerprint).where(_is(job_id))
        found = await self._database.transaction(lambda connection: connection.execute(query).scalar_one_or_none())
        if found is not None and fingerprint is not None and found != fingerprint:
            raise RequestIdReused(job_id, "other trajectories")
        return found is not None

    async def discard(self, key: str) -> None:
        """Forget a submission, or a job, with all that belongs to it."""
        await self._database.transaction(lambda connection: _forget(connection, [key]))

    async def job(self, job_id: str) -> bulk.Job:
        """A job. Raises JobNotFound."""
        return _message(await self._database.transaction(lambda connection: _found(connection, job_id)))

    async def key(self, job_id: str) -> str:
        """The key of a job. Raises JobNotFound."""
        return str(await self._database.transaction(lambda connection: _found(connection, job_id).key))

    async def jobs(self, dataset: str | None, before: tuple[int, str] | None, limit: int) -> list[Any]:
        """At most `limit` rows of jobs, newest first, those before a place."""
        query = select(_job).where(schema.job.c.accepted_at.is_not(None))
        if dataset is not None:
            query = query.where(_job.c.dataset == dataset)
        if before is not None:
            moment, key = before
            same = and_(_job.c.created_at == moment, _job.c.key < key)
            query = query.where(or_(_job.c.created_at < moment, same))
        query = query.order_by(_job.c.created_at.desc(), _job.c.key.desc()).limit(limit)
        return list(await self._database.transaction(lambda connection: connection.execute(query).all()))

    async def cancel(self, job_id: str, request_id: str) -> bulk.Job:
        """Drop what waits. Raises JobNotFound, RequestIdReused."""

        def work(connection: Connection) -> Any:
            row = _found(connection, job_id, lock=True)
            if _first_time(connection, request_id, "cancel", row.key) and row.waiting:
                waits = and_(_run.c.key == row.key, _run.c.state == WAITING)
                connection.execute(update(_run).where(waits).values(state=DROPPED, payload=None))
                ended = {"cancelled": True, "waiting": 0, "waiting_bytes": 0, "dropped": row.dropped + row.waiting}
                connection.execute(update(_job).where(_job.c.key == row.key).values(**ended, ended_at=self._now()))
            return _found(connection, job_id)

        return _message(await self._database.transaction(work))

    async def retry(self, job_id: str, request_id: str) -> bulk.Job:
        """Make the dead letters of a job wait again. Raises JobNotFound, RequestIdReused."""

        def work(connection: Connection) -> Any:
            row = _found(connection, job_id, lock=True)
            if _first_time(connection, request_id, "retry", row.key) and row.dead:
                dead = and_(_run.c.key == row.key, _run.c.state == DEAD)
                size = connection.execute(select(func.sum(_run.c.bytes)).where(dead)).scalar_one()
                fresh = {"state": WAITING, "attempts": 0, "starts": 0, "died_at": None}
                connection.execute(update(_run).where(dead).values(**fresh))
                counted = {
                    "waiting": row.waiting + row.dead,
                    "waiting_bytes": row.waiting_bytes + int(size),
                    "dead": 0,
                    "cancelled": False,
                    "ended_at": None,
                    "generation": row.generation + 1,
                    "requeue_at": _soon(self._clock()),
                }
                connection.execute(update(_job).where(_job.c.key == row.key).values(**counted))
            return _found(connection, job_id)

        return _message(await self._database.transaction(work))

    async def dead_letters(self, job_id: str, after: int, limit: int) -> list[bulk.DeadLetter]:
        """At most `limit` dead letters of a job, those at positions above `after`. Raises JobNotFound."""

        def work(connection: Connection) -> Sequence[Any]:
            key = _found(connection, job_id).key
            dead = and_(_run.c.key == key, _run.c.state == DEAD, _run.c.position > after)
            return connection.execute(select(_run).where(dead).order_by(_run.c.position).limit(limit)).all()

        return [_letter(row) for row in await self._database.transaction(work)]

    async def over(self, ended: timedelta, abandoned: timedelta) -> list[str]:
        """Keys of jobs that ended longer ago than `ended`, and of submissions that never arrived whole."""
        now = self._clock()
        done = _job.c.ended_at < microseconds(now - ended)
        cut_off = and_(_job.c.accepted_at.is_(None), _job.c.created_at < microseconds(now - abandoned))
        query = select(_job.c.key).where(or_(done, cut_off)).limit(20)
        return list(await self._database.transaction(lambda connection: connection.execute(query).scalars().all()))

    async def stock(self) -> Stock:
        """How all jobs that are kept stand."""
        sums = [func.sum(_job.c[name]).label(name) for name in _COUNTS]
        query = select(_job.c.cancelled, func.count().label("jobs"), *sums).where(_job.c.accepted_at.is_not(None))
        # Of jobs in the same state the sums are in that state, too.
        query = query.group_by(_job.c.cancelled, _job.c.waiting > 0, _job.c.dead > 0)
        rows = await self._database.transaction(lambda connection: connection.execute(query).all())
        jobs, trajectories = dict.fromkeys(_STATES, 0), dict.fromkeys(_COUNTS, 0)
        for row in rows:
            jobs[_name(_state(row))] += row.jobs
            for name in _COUNTS:
                trajectories[name] += int(getattr(row, name))
        return Stock(jobs, trajectories)

    def _now(self) -> int:
        return microseconds(self._clock())


def place_of(row: Any) -> tuple[int, str]:
    """Where a row of `Jobs.jobs` stands."""
    return row.created_at, row.key


def job_of(row: Any) -> bulk.Job:
    """A row of `Jobs.jobs` as a job."""
    return _message(row)


def _is(job_id: str) -> Any:
    return and_(_job.c.job_id == job_id, _job.c.accepted_at.is_not(None))


def _found(connection: Connection, job_id: str, *, lock: bool = False) -> Any:
    query = select(_job).where(_is(job_id))
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise JobNotFound(job_id)
    return row


def _first_time(connection: Connection, request_id: str, purpose: str, key: str) -> bool:
    """Note that a change was asked for; False for a repeat. Raises RequestIdReused."""
    asked = schema.request
    row = connection.execute(select(asked).where(asked.c.request_id == request_id)).one_or_none()
    if row is not None and (row.purpose, row.key) != (purpose, key):
        raise RequestIdReused(request_id)
    if row is None:
        connection.execute(insert(asked).values(request_id=request_id, purpose=purpose, key=key))
    return row is None


def _forget(connection: Connection, keys: Sequence[str]) -> None:
    for table in (schema.request, schema.trajectory, schema.job):
        connection.execute(delete(table).where(table.c.key.in_(keys)))


def _soon(now: datetime) -> int:
    return microseconds(now + REQUEUE_AFTER)


def _row(key: str, position: int, item: bulk.QueuedTrajectory) -> dict[str, Any]:
    payload = item.SerializeToString()
    return {
        "key": key,
        "position": position,
        "state": WAITING,
        "trajectory_id": item.trajectory.id,
        "payload": payload,
        "bytes": len(payload),
        "attempts": 0,
        "starts": 0,
        "code": "",
        "reason": "",
        "message": "",
    }


def _message(row: Any) -> bulk.Job:
    job = bulk.Job(
        job_id=row.job_id,
        dataset=row.dataset,
        state=_state(row),
        total=row.total,
        waiting=row.waiting,
        learned=row.learned,
        unchanged=row.unchanged,
        dead=row.dead,
        dropped=row.dropped,
        edits=row.edits,
        votes=row.votes,
        revision=row.revision,
    )
    job.created_at.FromDatetime(moment_of(row.created_at))
    if row.ended_at is not None:
        job.ended_at.FromDatetime(moment_of(row.ended_at))
    return job


def _state(row: Any) -> bulk.JobState.ValueType:
    if row.waiting:
        return bulk.JOB_STATE_RUNNING
    if row.cancelled:
        return bulk.JOB_STATE_CANCELLED
    return bulk.JOB_STATE_INCOMPLETE if row.dead else bulk.JOB_STATE_COMPLETED


def _letter(row: Any) -> bulk.DeadLetter:
    letter = bulk.DeadLetter(
        index=row.position,
        trajectory_id=row.trajectory_id,
        attempts=row.attempts,
        code=row.code,
        reason=row.reason,
        message=row.message,
    )
    letter.died_at.FromDatetime(moment_of(row.died_at))
    return letter
