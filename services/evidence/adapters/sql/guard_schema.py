"""The tables of guards: events of sessions, firings, the keys of random assignments, and backtests."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, LargeBinary, Table, Text

from libs.storage.timestamps import Timestamp
from services.evidence.adapters.sql.schema import metadata

guard_event = Table(
    "guard_event",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Index("guard_event_created_at", "created_at"),
)

guard_firing = Table(
    "guard_firing",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("call_digest", LargeBinary, primary_key=True),
    Column("bullet_id", Text, primary_key=True),
    Column("mode", Integer, nullable=False),
    Column("is_withheld", Boolean, nullable=False),
    Column("probability", Float, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Index("guard_firing_bullet", "dataset", "bullet_id"),
    Index("guard_firing_created_at", "created_at"),
)

guard_dataset = Table(
    "guard_dataset",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("assignment_key", LargeBinary, nullable=False),
)

guard_backtest = Table(
    "guard_backtest",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("target_digest", LargeBinary, primary_key=True),
    Column("false_alarm_bound", Float, nullable=False),
    Column("counts", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
)
