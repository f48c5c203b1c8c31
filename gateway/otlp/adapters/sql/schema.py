"""The tables of traces, the same for SQLite and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, MetaData, Table, Text

from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "otlp_schema_version")

metadata = MetaData()

trace = Table(
    "otlp_trace",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("trace_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("root_ended", Boolean, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    # When it is learned, or its late evaluation is reported; null if nothing is to be done.
    Column("due_at", Timestamp),
    Column("changed_at", Timestamp, nullable=False),
    Index("otlp_trace_due", "due_at"),
    Index("otlp_trace_id", "trace_id"),
)

part = Table(
    "otlp_part",
    metadata,
    # SQLite gives automatic ids to INTEGER keys only.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("dataset", Text, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    # A serialized TracesData or LogsData.
    Column("payload", LargeBinary, nullable=False),
    Index("otlp_part_trace", "dataset", "trace_id"),
)
