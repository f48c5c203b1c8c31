"""The planner's tables. Times are microseconds since the epoch, UTC."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()
# The id of a plan behind its prefix, and of a request behind the same. SQLite neither looks at lengths nor can change
# them: there they are what they were at first.
_EXECUTION_ID = String(140).with_variant(String(12), "sqlite")
_REQUEST_ID = String(164).with_variant(String(36), "sqlite")
VERSION_TABLE = "planner_schema_version"
"""Where the migrations note how far they have come."""

executions = Table(
    "planner_executions",
    metadata,
    Column("execution_id", _EXECUTION_ID, primary_key=True),
    # The beginning of the query, for lists; the whole one stands in the log.
    Column("query", String(200), nullable=False),
    Column("status", String(10), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("head_hash", LargeBinary(32), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    # When the open question expires; NULL unless paused.
    Column("wake_at", BigInteger),
    # Who drives the execution, the number of its turn, and until when; NULL: nobody.
    Column("owner", String(64)),
    Column("fence", Integer, nullable=False),
    Column("lease_until", BigInteger),
    Index("planner_executions_started", "started_at", "execution_id"),
    Index("planner_executions_wake", "wake_at"),
    Index("planner_executions_status", "status", "lease_until"),
    sqlite_with_rowid=False,
)

events = Table(
    "planner_events",
    metadata,
    Column("execution_id", _EXECUTION_ID, primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("created_at", BigInteger, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("hash", LargeBinary(32), nullable=False),
    sqlite_with_rowid=False,
)

requests = Table(
    "planner_requests",
    metadata,
    Column("request_id", _REQUEST_ID, primary_key=True),
    Column("fingerprint", LargeBinary(32), nullable=False),
    Column("answer", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

feedback = Table(
    "planner_feedback",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("confidence", Float, nullable=False),
    Column("correct", Boolean, nullable=False),
    Column("audit_probability", Float, nullable=False),
    Column("execution_id", _EXECUTION_ID, nullable=False),
    Column("step_id", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Steps a person was to judge, in the order of the decisions; `wrong` is NULL until someone did.
audits = Table(
    "planner_audits",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("execution_id", _EXECUTION_ID, nullable=False),
    Column("step_id", Integer, nullable=False),
    Column("score", Float, nullable=False),
    Column("probability", Float, nullable=False),
    Column("floor", Float, nullable=False),
    Column("wrong", Boolean),
    Index("planner_audits_step", "execution_id", "step_id"),
)

secrets = Table(
    "planner_secrets",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
