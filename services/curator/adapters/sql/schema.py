"""The tables of the playbook store, the same for SQLite and PostgreSQL.

`revision`, `change` and `vote` are the log: rows are only added, and a vote is only ever marked as withdrawn. `bullet`
is its fold, written in the same transaction, and could be rebuilt from it at any time. Times are microseconds since
1970 UTC; the two texts of `dataset` keep what an import brought, also a time without a zone (C-20).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()
VERSION_TABLE = "alembic_version"

dataset = Table(
    "dataset",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("bullets", Integer, nullable=False),
    Column("next_slot", BigInteger, nullable=False),
    Column("committed", BigInteger, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("policy", Text, nullable=False),
)

revision = Table(
    "revision",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("committed", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("source_trajectory", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("bullets_before", Integer, nullable=False),
    Column("bullets_after", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Index("revision_committed", "dataset", "committed"),
    Index("revision_trajectory", "dataset", "source_trajectory"),
)

change = Table(
    "change",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("bullet_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("before", Text),
    Column("after", Text),
    Index("change_bullet", "dataset", "bullet_id", "revision"),
    Index("change_slot", "dataset", "slot", "revision"),
)

vote = Table(
    "vote",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("trajectory", Text, primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("cast_in", BigInteger, primary_key=True, autoincrement=False),
    Column("withdrawn_in", BigInteger),
    Column("helpful", Integer, nullable=False),
    Column("harmful", Integer, nullable=False),
    Column("reason", Text, nullable=False),
)
Index(
    "vote_once",
    vote.c.dataset,
    vote.c.slot,
    vote.c.trajectory,
    vote.c.round,
    unique=True,
    sqlite_where=vote.c.withdrawn_in.is_(None),
    postgresql_where=vote.c.withdrawn_in.is_(None),
)
Index("vote_trajectory", vote.c.dataset, vote.c.trajectory)
Index("vote_cast", vote.c.dataset, vote.c.cast_in)
Index("vote_withdrawn", vote.c.dataset, vote.c.withdrawn_in)

bullet = Table(
    "bullet",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("bullet_id", Text, nullable=False),
    Column("number", BigInteger),
    Column("mark", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Index("bullet_id", "dataset", "bullet_id", "slot"),
    Index("bullet_number", "dataset", "number"),
    Index("bullet_mark", "dataset", "mark", "slot"),
)

request = Table(
    "request",
    metadata,
    Column("request_id", Text, primary_key=True),
    Column("method", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("response", LargeBinary, nullable=False),
    Column("answered", BigInteger, nullable=False),
    Index("request_answered", "answered"),
)

pending = Table(
    "pending",
    metadata,
    Column("id", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("proposed", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Index("pending_dataset", "dataset", "proposed", "id"),
    Index("pending_expires", "state", "expires"),
)
