"""The statements and columns that jobs and batches share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from gateway.bulk.adapters.sql.schema import COUNTS, WAITING, has_failed, job, requests, trajectory
from gateway.bulk.domain.errors import JobNotFound
from gateway.bulk.domain.job import Job, NewJob

JOB_COLUMNS = [job.c[field.name] for field in fields(Job) if field.name in job.c]
"""The columns of `Job`, in the order of its fields."""
DEAD_LETTER_COLUMNS = trajectory.c["position", "trajectory_id", "attempts", "code", "reason", "message", "died_at"]
"""The columns of `DeadLetter`, in the order of its fields."""
_LAST_FAILURE = (
    select(trajectory.c.message)
    .where(trajectory.c.key == bindparam("of_job"), has_failed)
    .order_by(trajectory.c.position)
    .limit(1)
)
_LOCKED_JOB = select(job).where(job.c.key == bindparam("of_job")).with_for_update()
_UPDATE_JOB = update(job).where(job.c.key == bindparam("of_job"))


def insert_job(connection: Connection, key: str, head: NewJob, now: datetime) -> None:
    """Insert a submission that begins to arrive."""
    times = {"created_at": now, "requeue_at": now}
    row = {"key": key, "job_id": head.job_id, "dataset": head.dataset, "max_iterations": head.max_iterations}
    connection.execute(insert(job), {**row, **times, "cancelled": False, "generation": 0, **dict.fromkeys(COUNTS, 0)})


def insert_trajectories(connection: Connection, key: str, first: int, payloads: Sequence[tuple[str, bytes]]) -> None:
    """Insert waiting trajectories from position `first` on."""
    fresh: dict[str, Any] = {"key": key, "state": WAITING, "attempts": 0, "starts": 0}
    fresh |= {"code": "", "reason": "", "message": ""}
    rows = [
        {**fresh, "position": first + offset, "trajectory_id": name, "payload": payload, "bytes": len(payload)}
        for offset, (name, payload) in enumerate(payloads)
    ]
    connection.execute(insert(trajectory), rows)


def select_waiting_sums(connection: Connection) -> tuple[int, int]:
    """Return the number and the bytes of all waiting trajectories."""
    sums = (func.coalesce(func.sum(job.c.waiting), 0), func.coalesce(func.sum(job.c.waiting_bytes), 0))
    count, size = connection.execute(select(*sums).where(job.c.waiting > 0)).one()
    return int(count), int(size)


def select_job(connection: Connection, job_id: str) -> Job:
    """Return an accepted job. Raises JobNotFound."""
    row = connection.execute(select(*JOB_COLUMNS).where(is_accepted(job_id))).one_or_none()
    if row is None:
        raise JobNotFound(job_id)
    return replace(Job(*row), last_failure=connection.scalar(_LAST_FAILURE, {"of_job": row.key}) or "")


def lock_job(connection: Connection, key: str) -> Any:
    """Return the row of a job, locked: always before its trajectories, so that no two transactions deadlock."""
    return connection.execute(_LOCKED_JOB, {"of_job": key}).one_or_none()


def update_job(connection: Connection, key: str, **values: Any) -> None:
    """Set columns of a job."""
    connection.execute(_UPDATE_JOB, {"of_job": key, **values})


def delete_jobs(connection: Connection, keys: Sequence[str]) -> None:
    """Delete submissions or jobs with their trajectories and requests."""
    connection.execute(delete(requests.table).where(requests.table.c.payload.in_([key.encode() for key in keys])))
    for table in (trajectory, job):
        connection.execute(delete(table).where(table.c.key.in_(keys)))


def is_accepted(job_id: str) -> Any:
    """Return the condition of the accepted job of an id."""
    return and_(job.c.job_id == job_id, job.c.accepted_at.is_not(None))
