"""The tables of bulk learning. DBOS keeps its own tables beside them: which replica runs which batch."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, MetaData, Table, Text, and_

from libs.storage.idempotency import IdempotencyTable
from libs.storage.leases import make_lease_columns
from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "bulk_schema_version")

WAITING, LEARNED, DEAD, DROPPED = range(4)
"""States of a trajectory."""

COUNTS = ("total", "waiting", "waiting_bytes", "learned", "unchanged", "dead", "dropped", "edits", "votes", "revision")
_LARGE = {"waiting_bytes", "edits", "votes", "revision"}

metadata = MetaData()

job = Table(
    "bulk_job",
    metadata,
    # A submission has a key of its own: an interrupted one and its repetition share the job's id.
    Column("key", Text, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("max_iterations", Integer),
    Column("created_at", Timestamp, nullable=False),
    # Unset while the submission arrives; only then is the job visible.
    Column("accepted_at", Timestamp),
    Column("ended_at", Timestamp),
    Column("cancelled", Boolean, nullable=False),
    # The number of times its batches were queued again; the job monitor checks them from `requeue_at` on.
    Column("generation", Integer, nullable=False),
    Column("requeue_at", Timestamp, nullable=False),
    *(Column(name, BigInteger if name in _LARGE else Integer, nullable=False) for name in COUNTS),
)
_accepted = job.c.accepted_at.is_not(None)
_waiting = job.c.waiting > 0
Index("bulk_job_accepted", job.c.job_id, unique=True, sqlite_where=_accepted, postgresql_where=_accepted)
Index("bulk_job_waiting", job.c.created_at, sqlite_where=_waiting, postgresql_where=_waiting)
Index("bulk_job_newest", job.c.created_at, job.c.key)

trajectory = Table(
    "bulk_trajectory",
    metadata,
    Column("key", Text, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("state", Integer, nullable=False),
    Column("trajectory_id", Text, nullable=False),
    # A QueuedTrajectory; removed once it is learned.
    Column("payload", LargeBinary),
    Column("bytes", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    # How often its learning was started, at most once by each start of a batch: 0 if the curator cannot have committed
    # it, many for a trajectory that ends its process.
    Column("starts", Integer, nullable=False),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("died_at", Timestamp),
)
has_failed = and_(trajectory.c.state == WAITING, trajectory.c.code != "")
"""The condition of a trajectory that waits for another attempt."""
Index(
    "bulk_trajectory_failed",
    trajectory.c.key,
    trajectory.c.position,
    sqlite_where=has_failed,
    postgresql_where=has_failed,
)
_dead = trajectory.c.state == DEAD
Index("bulk_trajectory_dead", trajectory.c.key, trajectory.c.position, sqlite_where=_dead, postgresql_where=_dead)

requests = IdempotencyTable(metadata, "bulk_request")
"""The payload of a request is the key of its job, with which it is deleted."""

replica = Table("bulk_replica", metadata, Column("executor", Text, primary_key=True), *make_lease_columns())
