"""The table of the outbox, the same for SQLite and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "outbox_schema_version")

metadata = MetaData()

outbox = Table(
    "outbox_trajectory",
    metadata,
    # SQLite gives automatic ids to INTEGER keys only.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    # The replica that delivers it.
    Column("executor", Text, nullable=False),
    Column("added_at", Timestamp, nullable=False),
    Column("bytes", Integer, nullable=False),
    # A serialized StoreTrajectoryRequest.
    Column("payload", LargeBinary, nullable=False),
)
