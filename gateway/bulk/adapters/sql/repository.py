"""Jobs in the gateway's database: submitted, listed, cancelled, retried, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select, tuple_, update

from gateway.bulk.adapters.sql import queries
from gateway.bulk.adapters.sql.schema import DEAD, DROPPED, WAITING, job, requests, trajectory
from gateway.bulk.domain.errors import JobNotFound, QueueFull
from gateway.bulk.domain.job import DeadLetter, Job, JobState, JobTotals, NewJob, QueueCapacity
from libs.storage.database import Database
from libs.storage.idempotency import IdempotencyKey, RequestDone, find_scope
from libs.storage.timestamps import utc_now

FULL_RETRY_SECONDS = 30.0
REQUEUE_AFTER = timedelta(seconds=60)
"""The time that a replica which changed a job has to queue its batches, before others do it."""
_EXPIRED_AT_ONCE = 20
_TOTALS = ("waiting", "learned", "dead", "dropped")


class JobRepository:
    """Implements `JobStore`."""

    def __init__(self, database: Database, capacity: QueueCapacity, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._capacity = capacity
        self._clock = clock

    async def begin(self, key: str, head: NewJob) -> None:
        """Begin a submission."""
        now = self._clock()
        await self._database.write(lambda connection: queries.insert_job(connection, key, head, now), key)

    async def stage(self, key: str, first: int, trajectories: Sequence[tuple[str, bytes]]) -> None:
        """Store ids and payloads of trajectories from position `first` on. Raises QueueFull."""
        size = sum(len(payload) for _, payload in trajectories)

        def insert_batch(connection: Connection) -> None:
            self._check_capacity(*queries.select_waiting_sums(connection), len(trajectories), size)
            queries.insert_trajectories(connection, key, first, trajectories)
            row = queries.lock_job(connection, key)
            if row is not None:
                counts = {"total": row.total + len(trajectories), "waiting": row.waiting + len(trajectories)}
                queries.update_job(connection, key, **counts, waiting_bytes=row.waiting_bytes + size)

        await self._database.write(insert_batch, key)

    def _check_capacity(self, waiting: int, waiting_bytes: int, count: int, size: int) -> None:
        capacity = self._capacity
        if waiting + count > capacity.trajectories:
            usage = f"{waiting} trajectories wait, and {count} more would exceed {capacity.trajectories}"
        elif waiting_bytes + size > capacity.bytes:
            usage = f"{waiting_bytes} bytes of trajectories wait, and {size} more would exceed {capacity.bytes}"
        else:
            return
        message = f"{usage}; nothing of this job was queued, submit it again later"
        raise QueueFull(message, retry_after=FULL_RETRY_SECONDS)

    async def accept(self, key: str, request: IdempotencyKey) -> bool:
        """Make a complete submission a job; False if the request was accepted before. Raises RequestIdReused."""
        now = self._clock()

        def accept_job(connection: Connection) -> None:
            requests.store_response(connection, request, b"", now, key.encode())
            queries.update_job(connection, key, accepted_at=now, requeue_at=now + REQUEUE_AFTER)

        try:
            await self._database.write(accept_job, key)
        except RequestDone:
            return False
        return True

    async def exists(self, job_id: str) -> bool:
        """Return whether a job is stored."""
        query = select(job.c.key).where(queries.is_accepted(job_id))
        return await self._database.read(lambda connection: connection.execute(query).first() is not None)

    async def check_accepted(self, request: IdempotencyKey) -> None:
        """Raise RequestIdReused if the accepted request of this id had another content."""
        await self._database.read(requests.find_response, request)

    async def discard(self, key: str) -> None:
        """Delete a submission or a job with its trajectories."""
        await self._database.write(lambda connection: queries.delete_jobs(connection, [key]), key)

    async def find(self, job_id: str) -> Job:
        """Return a job. Raises JobNotFound."""
        return await self._database.read(queries.select_job, job_id)

    async def list_jobs(self, dataset: str | None, before: tuple[datetime, str] | None, limit: int) -> list[Job]:
        """Return at most `limit` jobs, newest first, those before a time and key."""
        query = select(*queries.JOB_COLUMNS).where(job.c.accepted_at.is_not(None))
        query = query if dataset is None else query.where(job.c.dataset == dataset)
        query = query if before is None else query.where(tuple_(job.c.created_at, job.c.key) < before)
        query = query.order_by(job.c.created_at.desc(), job.c.key.desc()).limit(limit)
        return await self._database.read(lambda connection: [Job(*row) for row in connection.execute(query)])

    async def cancel(self, job_id: str, request: IdempotencyKey) -> Job:
        """Cancel a job: drop its trajectories that were not started. Raises JobNotFound, RequestIdReused.

        The curator may have committed the others, so they are finished, after a crash as well.
        """

        def drop(connection: Connection, row: Any) -> None:
            if not row.waiting:
                return
            waiting = and_(trajectory.c.key == row.key, trajectory.c.state == WAITING)
            not_started = and_(waiting, trajectory.c.starts == 0)
            dropped = connection.execute(update(trajectory).where(not_started).values(state=DROPPED, payload=None))
            started = select(func.count(), func.coalesce(func.sum(trajectory.c.bytes), 0)).where(waiting)
            count, size = connection.execute(started).one()
            now = self._clock()
            counts = {"waiting": count, "waiting_bytes": int(size), "dropped": row.dropped + dropped.rowcount}
            ended_at = None if count else now
            queries.update_job(connection, row.key, cancelled=True, ended_at=ended_at, requeue_at=now, **counts)

        return await self._change(job_id, request, drop)

    async def retry(self, job_id: str, request: IdempotencyKey) -> Job:
        """Make the dead letters of a job wait again. Raises JobNotFound, RequestIdReused."""

        def revive(connection: Connection, row: Any) -> None:
            if not row.dead:
                return
            dead = and_(trajectory.c.key == row.key, trajectory.c.state == DEAD)
            size = connection.execute(select(func.sum(trajectory.c.bytes)).where(dead)).scalar_one()
            fresh = {"state": WAITING, "attempts": 0, "starts": 0, "died_at": None}
            connection.execute(update(trajectory).where(dead).values(**fresh))
            queries.update_job(
                connection,
                row.key,
                waiting=row.waiting + row.dead,
                waiting_bytes=row.waiting_bytes + int(size),
                dead=0,
                cancelled=False,
                ended_at=None,
                generation=row.generation + 1,
                requeue_at=self._clock() + REQUEUE_AFTER,
            )

        return await self._change(job_id, request, revive)

    async def _change(self, job_id: str, request: IdempotencyKey, change: Callable[[Connection, Any], None]) -> Job:
        """Change a job once for each request of its tenant, and return it."""
        found = await self.find(job_id)
        key, scoped_request = found.key, replace(request, scope=find_scope(found.dataset))

        def change_job(connection: Connection) -> Job:
            row = queries.lock_job(connection, key)
            if row is None:
                raise JobNotFound(job_id)

            def apply_change() -> bytes:
                change(connection, row)
                return b""

            requests.run_once(connection, scoped_request, self._clock(), apply_change, key.encode())
            return queries.select_job(connection, job_id)

        return await self._database.write(change_job, key)

    async def list_dead_letters(self, job_id: str, after: int, limit: int) -> list[DeadLetter]:
        """Return at most `limit` dead letters of a job, those at positions above `after`. Raises JobNotFound."""

        def select_dead_letters(connection: Connection) -> list[DeadLetter]:
            key = queries.select_job(connection, job_id).key
            query = select(*queries.DEAD_LETTER_COLUMNS).where(trajectory.c.key == key, trajectory.c.state == DEAD)
            query = query.where(trajectory.c.position > after).order_by(trajectory.c.position).limit(limit)
            return [DeadLetter(*row) for row in connection.execute(query)]

        return await self._database.read(select_dead_letters)

    async def list_expired_keys(self, retention: timedelta, abandoned: timedelta) -> list[str]:
        """Return keys of jobs that ended before `retention`, and of submissions that did not arrive whole."""
        now = self._clock()
        is_abandoned = and_(job.c.accepted_at.is_(None), job.c.created_at < now - abandoned)
        query = select(job.c.key).where(or_(job.c.ended_at < now - retention, is_abandoned)).limit(_EXPIRED_AT_ONCE)
        return await self._database.read(lambda connection: list(connection.scalars(query)))

    async def count_totals(self) -> JobTotals:
        """Return the totals of all stored jobs."""
        sums = [func.sum(job.c[name]).label(name) for name in _TOTALS]
        query = select(job.c.cancelled, func.count().label("jobs"), *sums).where(job.c.accepted_at.is_not(None))
        # Jobs of one state have sums of the same state.
        query = query.group_by(job.c.cancelled, job.c.waiting > 0, job.c.dead > 0)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        jobs, trajectories = dict.fromkeys(list(JobState), 0), dict.fromkeys(_TOTALS, 0)
        for row in rows:
            jobs[JobState.from_counts(waiting=row.waiting, dead=row.dead, cancelled=row.cancelled)] += row.jobs
            for name in _TOTALS:
                trajectories[name] += int(getattr(row, name))
        return JobTotals({state.value: count for state, count in jobs.items()}, trajectories)
