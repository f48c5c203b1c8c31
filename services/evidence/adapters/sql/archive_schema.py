"""The tables of the archive, the same for SQLite and PostgreSQL.

PostgreSQL partitions trajectories, packs and marks by `dataset_id`, so their primary keys contain it there, and every
statement names it.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from libs.storage.timestamps import Timestamp
from services.evidence.adapters.sql.schema import metadata

# SQLite gives automatic ids to INTEGER keys only.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

archive_dataset = Table(
    "archive_dataset",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("dataset", Text, nullable=False, unique=True),
    Column("max_age_days", Integer, nullable=False),
    Column("max_bytes", BigInteger, nullable=False),
    # Trajectories that can be read, and the bytes of their bodies.
    Column("trajectories", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    # Trajectories that were learned until then are no longer stored.
    Column("deleted_at", Timestamp),
)

archive_trajectory = Table(
    "archive_trajectory",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("dataset_id", BigInteger, nullable=False),
    Column("trajectory_id", Text, nullable=False),
    Column("content_hash", LargeBinary, nullable=False),
    Column("status", Integer, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("learned_at", Timestamp, nullable=False),
    Column("stored_at", Timestamp, nullable=False),
    # A tombstone: the columns below it are empty.
    Column("deleted_at", Timestamp),
    # Of a body in a pack: its share of the pack.
    Column("bytes", BigInteger, nullable=False),
    Column("summary", Text),
    # Whether an earlier trajectory had one of its errors; the sums of its day count it so.
    Column("repeats_error", Boolean, nullable=False),
    # The body is in one of three places: an object, the row, or a pack.
    Column("object_key", Text),
    Column("body", LargeBinary),
    Column("pack_number", BigInteger),
    Column("pack_start", BigInteger),
    Column("pack_length", BigInteger),
    UniqueConstraint("dataset_id", "trajectory_id", "content_hash", name="archive_trajectory_content"),
    Index("archive_trajectory_number", "dataset_id", "number"),
    Index("archive_trajectory_pack", "pack_number"),
)
_is_readable = archive_trajectory.c.deleted_at.is_(None)
Index(
    "archive_trajectory_stored",
    archive_trajectory.c.dataset_id,
    archive_trajectory.c.stored_at,
    sqlite_where=_is_readable,
    postgresql_where=_is_readable,
)

archive_pack = Table(
    "archive_pack",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("dataset_id", BigInteger, nullable=False),
    # Before compression.
    Column("plain_bytes", BigInteger, nullable=False),
    # It holds the body of a deleted trajectory, and is written again without it.
    Column("is_stale", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("archive_pack_dataset", "dataset_id", "is_stale"),
)

archive_mark = Table(
    "archive_mark",
    metadata,
    Column("dataset_id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Integer, primary_key=True, autoincrement=False),
    Column("value", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

archive_day = Table(
    "archive_day",
    metadata,
    Column("dataset_id", BigInteger, primary_key=True, autoincrement=False),
    # Days since 1970-01-01 UTC on which the trajectories ran.
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("has_bullets", Boolean, primary_key=True),
    # Empty: all trajectories of the day, each once.
    Column("agent", Text, primary_key=True),
    Column("trajectories", BigInteger, nullable=False),
    Column("succeeded", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("with_errors", BigInteger, nullable=False),
    Column("with_repeated_errors", BigInteger, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("with_tokens", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("with_cost", BigInteger, nullable=False),
    Column("cost_nano_usd", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

archive_object = Table(
    "archive_object",
    metadata,
    Column("object_key", Text, primary_key=True),
    # From then on the object belongs to no trajectory and is deleted.
    Column("unused_from", Timestamp, nullable=False),
)
