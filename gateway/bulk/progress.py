"""Jobs as their workers see them: what is to be learned, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, case, delete, insert, or_, select, update

from gateway.bulk import schema
from gateway.bulk.database import JobsDatabase
from gateway.bulk.jobs import REQUEUE_AFTER
from gateway.bulk.records import Batch, Failure, Learned, Waiting, learning_id, microseconds, utc_now
from gateway.bulk.schema import DEAD, DROPPED, LEARNED, WAITING
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import gateway_service_pb2 as gateway

MAX_STARTS = 10
MAX_BATCH = 50
GONE = 0
"""The mark of a replica that left."""
_LOOKED_AFTER = 20
_job, _run, _replica = schema.job, schema.trajectory, schema.replica


class Progress:
    """What waits, and what became of it. All methods raise JobsUnavailable and JobsCorrupt."""

    def __init__(self, database: JobsDatabase, spread: int, clock: Callable[[], datetime] = utc_now) -> None:
        """`spread`: how many trajectories of a job are learned at once; small jobs are cut finely enough for it."""
        self._database = database
        self._spread = spread
        self._clock = clock

    async def batches(self, key: str) -> list[Batch]:
        """What of a job waits, as the batches of its present generation."""

        def work(connection: Connection) -> tuple[Any, Sequence[int]]:
            head = select(_job.c.dataset, _job.c.generation).where(_job.c.key == key)
            waits = and_(_run.c.key == key, _run.c.state == WAITING)
            positions = select(_run.c.position).where(waits).order_by(_run.c.position)
            return connection.execute(head).one_or_none(), connection.execute(positions).scalars().all()

        row, positions = await self._database.transaction(work)
        if row is None:
            return []
        prefix = generation_of(key, row.generation)
        return [
            Batch(f"{prefix}{number}", key, row.dataset, neighbours[0], neighbours[-1])
            for number, neighbours in enumerate(cut(positions, self._spread))
        ]

    async def to_look_after(self) -> list[tuple[str, int]]:
        """Key and generation of jobs, oldest first, of which something waits although it should have been queued."""
        now = self._clock()
        # A time that is further away than it can be was noted by a clock that ran ahead.
        ahead = _job.c.requeue_at > microseconds(now + REQUEUE_AFTER)
        reached = or_(_job.c.requeue_at <= microseconds(now), ahead)
        due = and_(_job.c.waiting > 0, _job.c.accepted_at.is_not(None), reached)
        query = select(_job.c.key, _job.c.generation).where(due).order_by(_job.c.created_at).limit(_LOOKED_AFTER)
        rows = await self._database.transaction(lambda connection: connection.execute(query).all())
        return [(row.key, row.generation) for row in rows]

    async def something_waits(self) -> bool:
        """Whether any job has something to learn."""
        query = select(_job.c.key).where(_job.c.waiting > 0, _job.c.accepted_at.is_not(None)).limit(1)
        return await self._database.transaction(lambda connection: connection.execute(query).first() is not None)

    async def next_generation(self, key: str, generation: int) -> bool:
        """Begin another generation of batches; False if somebody else did, or nothing waits any more."""
        mine = and_(_job.c.key == key, _job.c.generation == generation, _job.c.waiting > 0)
        values = {"generation": generation + 1, "requeue_at": microseconds(self._clock() + REQUEUE_AFTER)}
        statement = update(_job).where(mine).values(**values)
        return await self._database.transaction(lambda connection: connection.execute(statement).rowcount > 0)

    async def started(self, batch: Batch) -> list[int]:
        """Positions of a batch that wait. Its first one is counted as begun; begun too often, it becomes a dead letter.

        A trajectory that ends the process it is learned in would otherwise end one after the other.
        """

        def work(connection: Connection) -> list[int]:
            waits = and_(_run.c.key == batch.key, _run.c.state == WAITING)
            within = _run.c.position.between(batch.first, batch.last)
            query = select(_run.c.position, _run.c.starts).where(waits, within).order_by(_run.c.position)
            rows = connection.execute(query).all()
            if not rows:
                return []
            first, positions = rows[0], [row.position for row in rows]
            if first.starts >= MAX_STARTS:
                message = f"learning it was begun {first.starts} times and never came to an end"
                failure = Failure("ABORTED", "LEARNING_NEVER_ENDED", message, passing=False)
                self._buried(connection, batch.key, first.position, failure)
                return positions[1:]
            one = and_(_run.c.key == batch.key, _run.c.position == first.position)
            connection.execute(update(_run).where(one).values(starts=first.starts + 1))
            return positions

        return await self._database.transaction(work)

    async def waiting(self, key: str, position: int) -> Waiting | None:
        """A trajectory to learn; None if it does not wait any more."""
        columns = (_job.c.job_id, _job.c.dataset, _job.c.max_iterations, _run.c.payload, _run.c.attempts)
        query = select(*columns).join(_run, _run.c.key == _job.c.key)
        query = query.where(_run.c.key == key, _run.c.position == position, _run.c.state == WAITING)
        row = await self._database.transaction(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            return None
        item = bulk.QueuedTrajectory.FromString(row.payload)
        request = gateway.LearnRequest(
            request_id=learning_id(row.job_id, position),
            dataset=row.dataset,
            trajectory=item.trajectory,
            ground_truth=item.ground_truth,
            test_report=item.test_report,
            siblings=item.siblings,
        )
        if row.max_iterations is not None:
            request.max_iterations = row.max_iterations
        return Waiting(request, row.attempts)

    async def learned(self, key: str, position: int, what: Learned) -> None:
        """Count a trajectory as learned, once. One that was dropped meanwhile was learned all the same."""

        def work(connection: Connection) -> None:
            job = _counted(connection, key)
            before = _moved(connection, key, position, LEARNED, (WAITING, DROPPED), payload=None)
            if job is None or before is None:
                return
            values = {
                "learned": job.learned + 1,
                "unchanged": job.unchanged + (not what.changed),
                "edits": job.edits + what.edits,
                "votes": job.votes + what.votes,
                "revision": max(job.revision, what.revision),
            }
            if before.state == DROPPED:
                values["dropped"] = job.dropped - 1
            else:
                values |= self._one_less(job, before.bytes)
            connection.execute(update(_job).where(_job.c.key == key).values(**values))

        await self._database.transaction(work)

    async def failed(self, key: str, position: int, failure: Failure) -> None:
        """Note an attempt that failed; the trajectory goes on waiting."""
        one = and_(_run.c.key == key, _run.c.position == position, _run.c.state == WAITING)
        statement = update(_run).where(one).values(attempts=_run.c.attempts + 1, **_why(failure))
        await self._database.transaction(lambda connection: connection.execute(statement))

    async def died(self, key: str, position: int, failure: Failure) -> None:
        """Make a trajectory that waits a dead letter, after one more attempt."""
        await self._database.transaction(lambda connection: self._buried(connection, key, position, failure))

    async def alive(self, executor: str) -> None:
        """Say that a replica works."""
        now, before = self._now(), _replica.c.seen_at
        # Also where the clock stands still or was put back it is another mark than before.
        mark = case((before >= now, before + 1), else_=now)

        def work(connection: Connection) -> None:
            said = update(_replica).where(_replica.c.executor == executor).values(seen_at=mark)
            if not connection.execute(said).rowcount:
                connection.execute(insert(_replica).values(executor=executor, seen_at=now))

        await self._database.transaction(work)

    async def gone(self, executor: str) -> None:
        """Say that a replica leaves: others may take its work over at once."""
        statement = update(_replica).where(_replica.c.executor == executor).values(seen_at=GONE)
        await self._database.transaction(lambda connection: connection.execute(statement))

    async def replicas(self) -> dict[str, int]:
        """The mark of each replica: another one each time it says that it works, `GONE` once it left."""
        query = select(_replica.c.executor, _replica.c.seen_at)
        rows = await self._database.transaction(lambda connection: connection.execute(query).all())
        return {row.executor: row.seen_at for row in rows}

    async def forget_replica(self, executor: str, mark: int) -> None:
        """Forget a replica whose work was taken over, unless it is back since it had that mark."""
        statement = delete(_replica).where(_replica.c.executor == executor, _replica.c.seen_at == mark)
        await self._database.transaction(lambda connection: connection.execute(statement))

    def _buried(self, connection: Connection, key: str, position: int, failure: Failure) -> None:
        why = {**_why(failure), "attempts": _run.c.attempts + 1, "died_at": self._now()}
        job = _counted(connection, key)
        before = _moved(connection, key, position, DEAD, (WAITING,), **why)
        if job is not None and before is not None:
            values = {"dead": job.dead + 1, **self._one_less(job, before.bytes)}
            connection.execute(update(_job).where(_job.c.key == key).values(**values))

    def _one_less(self, job: Any, size: int) -> dict[str, Any]:
        values: dict[str, Any] = {"waiting": job.waiting - 1, "waiting_bytes": job.waiting_bytes - size}
        return values | {"ended_at": self._now()} if job.waiting == 1 else values

    def _now(self) -> int:
        return microseconds(self._clock())


def cut(positions: Sequence[int], spread: int) -> list[Sequence[int]]:
    """Positions as batches: large ones cost the queue less, small ones let `spread` be learned at once."""
    size = min(MAX_BATCH, max(1, len(positions) // (4 * spread)))
    return [positions[start : start + size] for start in range(0, len(positions), size)]


def generation_of(key: str, generation: int) -> str:
    """What the ids of all batches of a generation begin with."""
    return f"{key}/{generation}/"


def _counted(connection: Connection, key: str) -> Any:
    """The counts of a job, locked: always before its trajectories, so that nobody waits for each other."""
    return connection.execute(select(_job).where(_job.c.key == key).with_for_update()).one_or_none()


def _moved(connection: Connection, key: str, position: int, to: int, states: tuple[int, ...], **more: Any) -> Any:
    """State and size of a trajectory before it was moved to another state; None if it was in none of `states`."""
    one = and_(_run.c.key == key, _run.c.position == position, _run.c.state.in_(states))
    before = connection.execute(select(_run.c.state, _run.c.bytes).where(one)).one_or_none()
    if before is not None:
        connection.execute(update(_run).where(one).values(state=to, **more))
    return before


def _why(failure: Failure) -> dict[str, str]:
    return {"code": failure.code, "reason": failure.reason, "message": failure.message}
