"""The planner's tables."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

from libs.storage.idempotency import IdempotencyTable
from libs.storage.leases import Leases, make_lease_columns
from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "planner_schema_version")
QUERY_CHARS = 200

metadata = MetaData()

executions = Table(
    "planner_execution",
    metadata,
    Column("execution_id", Text, primary_key=True),
    # The beginning of the query, for lists; the log contains all of it.
    Column("query", String(QUERY_CHARS), nullable=False),
    Column("status", Text, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
    Column("started_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    # When the open question expires; NULL unless paused.
    Column("wake_at", Timestamp),
    # When the open question is to be sent to people; NULL once it was.
    Column("notify_at", Timestamp),
    *make_lease_columns(),
    Index("planner_execution_started", "started_at", "execution_id"),
    Index("planner_execution_wake", "wake_at"),
    Index("planner_execution_notify", "notify_at"),
    Index("planner_execution_status", "status", "heartbeat"),
    sqlite_with_rowid=False,
)

events = Table(
    "planner_event",
    metadata,
    Column("execution_id", Text, primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    # Microseconds since 1970 UTC: decoded once its hash is checked, because a forged row may hold anything.
    Column("created_at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

feedback = Table(
    "planner_feedback",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("confidence", Float, nullable=False),
    Column("correct", Boolean, nullable=False),
    Column("audit_probability", Float, nullable=False),
    Column("execution_id", Text, nullable=False),
    Column("step_id", Integer, nullable=False),
    Column("created_at", Timestamp, nullable=False),
)

# A log of the steps that were selected for a label, of their labels, and of the ends of their executions.
audits = Table(
    "planner_audit",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("execution_id", Text, nullable=False),
    Column("step_id", Integer, nullable=False),
    Column("tool", Text, nullable=False),
    Column("score", Float, nullable=False),
    Column("probability", Float, nullable=False),
    Column("rate", Float, nullable=False),
    Column("wrong", Boolean, nullable=False),
    Index("planner_audit_execution", "execution_id"),
)

webhooks = Table(
    "planner_webhook",
    metadata,
    Column("execution_id", Text, primary_key=True),
    Column("webhook_id", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("authorization", Text, nullable=False),
    # The last event whose change was sent.
    Column("sent_sequence", Integer, nullable=False),
    # When the execution changed its state; messages that fail for too long after it are not repeated.
    Column("changed_at", Timestamp, nullable=False),
    # When the next messages are to be sent; NULL once they were.
    Column("notify_at", Timestamp),
    Index("planner_webhook_notify", "notify_at"),
    sqlite_with_rowid=False,
)

secrets = Table(
    "planner_secret",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

requests = IdempotencyTable(metadata, "planner_request")
leases = Leases(executions, "execution_id")
