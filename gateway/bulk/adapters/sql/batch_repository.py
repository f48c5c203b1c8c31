"""Batches of jobs and the outcome of each trajectory, as workers see them; and the leases of replicas."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, or_, select, update

from gateway.bulk.adapters.sql import queries
from gateway.bulk.adapters.sql.repository import REQUEUE_AFTER
from gateway.bulk.adapters.sql.schema import DEAD, DROPPED, LEARNED, WAITING, job, replica, trajectory
from gateway.bulk.domain.attempts import Failure, PendingTrajectory, TrajectoryCommit
from gateway.bulk.domain.batches import Batch, build_generation_prefix, split_positions
from libs.storage.database import Database
from libs.storage.leases import Lease, Leases, LeaseState
from libs.storage.timestamps import utc_now

MAX_STARTS = 10
_OVERDUE_AT_ONCE = 20

# Statements that run for every trajectory are built once; each execution only binds values.
_ONE = and_(trajectory.c.key == bindparam("of_job"), trajectory.c.position == bindparam("at_position"))
_PENDING = (
    select(job.c.job_id, job.c.dataset, job.c.max_iterations, trajectory.c.payload, trajectory.c.attempts)
    .add_columns(trajectory.c.starts)
    .join(trajectory, trajectory.c.key == job.c.key)
    .where(_ONE, trajectory.c.state == WAITING)
)
_STATE = select(trajectory.c.state, trajectory.c.bytes, trajectory.c.attempts).where(_ONE)
_UPDATE_ONE = update(trajectory).where(_ONE)


class BatchRepository:
    """Implements `BatchStore`."""

    def __init__(self, database: Database, concurrency: int, clock: Callable[[], datetime] = utc_now) -> None:
        """`concurrency` trajectories of a job are learned at once; batches of small jobs are small enough for it."""
        self._database = database
        self._concurrency = concurrency
        self._clock = clock

    async def list_batches(self, key: str) -> list[Batch]:
        """Return the waiting trajectories of a job as batches of its present generation."""

        def select_batches(connection: Connection) -> list[Batch]:
            row = connection.execute(select(job.c.dataset, job.c.generation).where(job.c.key == key)).one_or_none()
            if row is None:
                return []
            query = select(trajectory.c.position).where(trajectory.c.key == key, trajectory.c.state == WAITING)
            positions = connection.scalars(query.order_by(trajectory.c.position)).all()
            prefix = build_generation_prefix(key, row.generation)
            return [
                Batch(f"{prefix}{number}", key, row.dataset, part[0], part[-1])
                for number, part in enumerate(split_positions(positions, self._concurrency))
            ]

        return await self._database.read(select_batches)

    async def list_overdue_jobs(self) -> list[tuple[str, int]]:
        """Return key and generation of the jobs whose batches have to be queued again, oldest first."""
        now = self._clock()
        # A time too far in the future was stored by a replica whose clock was ahead.
        is_due = or_(job.c.requeue_at <= now, job.c.requeue_at > now + REQUEUE_AFTER)
        query = select(job.c.key, job.c.generation).where(job.c.waiting > 0, job.c.accepted_at.is_not(None), is_due)
        query = query.order_by(job.c.created_at).limit(_OVERDUE_AT_ONCE)
        return await self._database.read(
            lambda connection: [(row.key, row.generation) for row in connection.execute(query)]
        )

    async def has_waiting(self) -> bool:
        """Return whether any job has waiting trajectories."""
        query = select(job.c.key).where(job.c.waiting > 0, job.c.accepted_at.is_not(None)).limit(1)
        return await self._database.read(lambda connection: connection.execute(query).first() is not None)

    async def start_generation(self, key: str, generation: int) -> bool:
        """Start the next generation of batches; False if another replica did, or nothing waits any more."""
        unchanged = and_(job.c.key == key, job.c.generation == generation, job.c.waiting > 0)
        values = {"generation": generation + 1, "requeue_at": self._clock() + REQUEUE_AFTER}
        statement = update(job).where(unchanged).values(**values)
        return await self._database.write(lambda connection: connection.execute(statement).rowcount > 0, key)

    async def start_batch(self, batch: Batch) -> list[int]:
        """Count a start of a batch on its first waiting position, and return the positions that wait.

        A trajectory with which batches started too often becomes a dead letter: it ends the process that learns it.
        """

        def count_start(connection: Connection) -> list[int]:
            waiting = and_(trajectory.c.key == batch.key, trajectory.c.state == WAITING)
            query = select(trajectory.c.position, trajectory.c.starts).where(waiting)
            query = query.where(trajectory.c.position.between(batch.first, batch.last))
            rows = connection.execute(query.order_by(trajectory.c.position)).all()
            if not rows:
                return []
            first, positions = rows[0], [row.position for row in rows]
            if first.starts >= MAX_STARTS:
                message = f"learning was started {first.starts} times and never ended"
                failure = Failure("ABORTED", "LEARNING_NEVER_ENDED", message, is_transient=False)
                self._update_dead(connection, batch.key, first.position, failure)
                return positions[1:]
            is_first = and_(trajectory.c.key == batch.key, trajectory.c.position == first.position)
            connection.execute(update(trajectory).where(is_first).values(starts=first.starts + 1))
            return positions

        return await self._database.write(count_start, batch.key)

    async def start_trajectory(self, key: str, position: int) -> PendingTrajectory | None:
        """Mark a waiting trajectory as started, and return it; None if it does not wait any more.

        A cancellation leaves started trajectories waiting: the curator may have committed them.
        """

        def start(connection: Connection) -> PendingTrajectory | None:
            queries.lock_job(connection, key)
            return _mark_started(connection, key, position)

        return await self._database.write(start, key)

    async def save_learned(
        self, key: str, position: int, learned: TrajectoryCommit, following: int | None = None
    ) -> PendingTrajectory | None:
        """Count a trajectory as learned, once, also one that was dropped meanwhile; start the `following` one."""

        def save_and_start(connection: Connection) -> PendingTrajectory | None:
            update_counts(connection)
            return None if following is None else _mark_started(connection, key, following)

        def update_counts(connection: Connection) -> None:
            row = queries.lock_job(connection, key)
            before = _update_state(connection, key, position, LEARNED, (WAITING, DROPPED), payload=None)
            if row is None or before is None:
                return
            was_dropped = before.state == DROPPED
            counts = {"dropped": row.dropped - 1} if was_dropped else self._subtract_from_counts(row, before.bytes)
            queries.update_job(
                connection,
                key,
                learned=row.learned + 1,
                unchanged=row.unchanged + (not learned.changed),
                edits=row.edits + learned.edits,
                votes=row.votes + learned.votes,
                revision=max(row.revision, learned.revision),
                **counts,
            )

        return await self._database.write(save_and_start, key)

    async def save_failure(self, key: str, position: int, failure: Failure, attempts: int = 1) -> None:
        """Store why a trajectory failed, and count `attempts`, 0 or 1; it still waits."""

        def update_attempts(connection: Connection) -> None:
            _update_state(
                connection, key, position, WAITING, (WAITING,), attempts=attempts, **_describe_reason(failure)
            )

        await self._database.write(update_attempts, key)

    async def save_dead_letter(self, key: str, position: int, failure: Failure) -> None:
        """Make a waiting trajectory a dead letter, after one more attempt."""
        await self._database.write(lambda connection: self._update_dead(connection, key, position, failure), key)

    def _update_dead(self, connection: Connection, key: str, position: int, failure: Failure) -> None:
        row = queries.lock_job(connection, key)
        values = {**_describe_reason(failure), "died_at": self._clock()}
        before = _update_state(connection, key, position, DEAD, (WAITING,), attempts=1, **values)
        if row is not None and before is not None:
            queries.update_job(connection, key, dead=row.dead + 1, **self._subtract_from_counts(row, before.bytes))

    def _subtract_from_counts(self, row: Any, size: int) -> dict[str, Any]:
        """Return the counts of a job without one of its waiting trajectories."""
        counts: dict[str, Any] = {"waiting": row.waiting - 1, "waiting_bytes": row.waiting_bytes - size}
        return counts | {"ended_at": self._clock()} if row.waiting == 1 else counts


class ReplicaLeases:
    """Implements `ReplicaStore`: each replica holds the lease of its own name."""

    def __init__(self, database: Database, executor: str, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._executor = executor
        self._clock = clock
        self._leases = Leases(replica, "executor")
        self._lease: Lease | None = None

    async def renew(self) -> None:
        """Renew the lease of this replica; take it again if another one deleted it."""
        lease, now = self._lease, self._clock()

        def renew_lease(connection: Connection) -> Lease:
            if lease is not None and self._leases.renew(connection, [lease], now):
                return lease
            return self._leases.take_by_force(connection, self._executor, self._executor, now)

        self._lease = await self._database.write(renew_lease, self._executor)

    async def release(self) -> None:
        """Give the lease back: other replicas may take the work over at once."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._database.write(lambda connection: self._leases.release(connection, lease), self._executor)

    async def list_states(self) -> list[LeaseState]:
        """Return the leases of all replicas."""
        return await self._database.read(self._leases.list_states)

    async def delete(self, state: LeaseState) -> None:
        """Delete the lease of a replica whose work was taken over, unless it was renewed."""
        await self._database.write(lambda connection: self._leases.delete(connection, state), state.name)


def _mark_started(connection: Connection, key: str, position: int) -> PendingTrajectory | None:
    """Mark a waiting trajectory of a locked job as started; None if it does not wait any more."""
    parameters = {"of_job": key, "at_position": position}
    row = connection.execute(_PENDING, parameters).one_or_none()
    if row is None:
        return None
    *pending, starts = row
    if not starts:
        connection.execute(_UPDATE_ONE, {**parameters, "starts": 1})
    return PendingTrajectory(*pending)


def _update_state(
    connection: Connection, key: str, position: int, to: int, states: tuple[int, ...], attempts: int = 0, **more: Any
) -> Any:
    """Return state and size of a trajectory before this update; None, and no update, if it was in none of `states`.

    `attempts` is added to those of the trajectory.
    """
    parameters = {"of_job": key, "at_position": position}
    before = connection.execute(_STATE, parameters).one_or_none()
    if before is None or before.state not in states:
        return None
    connection.execute(_UPDATE_ONE, {**parameters, "state": to, "attempts": before.attempts + attempts, **more})
    return before


def _describe_reason(failure: Failure) -> dict[str, str]:
    return {"code": failure.code, "reason": failure.reason, "message": failure.message}
