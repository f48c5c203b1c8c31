"""The tables of the evidence service, the same for SQLite and PostgreSQL, which partitions `serving` by `dataset`."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from libs.storage.idempotency import IdempotencyTable
from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "evidence_schema_version")

metadata = MetaData()

dataset_trials = Table(
    "dataset_trials",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("assignment_key", LargeBinary, nullable=False),
    Column("policy", Text, nullable=False),
    Column("is_running", Boolean, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("began_at", Timestamp, nullable=False),
    Column("lift", Text, nullable=False),
    Column("servings_served", BigInteger, nullable=False),
    Column("servings_withheld", BigInteger, nullable=False),
    Column("reports_served", BigInteger, nullable=False),
    Column("reports_withheld", BigInteger, nullable=False),
    Column("enrolled", Integer, nullable=False),
    Column("decisions", Integer, nullable=False),
    Column("corrections", BigInteger, nullable=False),
)

bullet_trial = Table(
    "bullet_trial",
    metadata,
    # SQLite gives automatic ids to INTEGER keys only.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("dataset", Text, nullable=False),
    Column("bullet_id", Text, nullable=False),
    Column("text_version", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("since", Timestamp, nullable=False),
    Column("statistics", Text, nullable=False),
    Column("drift", Text, nullable=False),
    # Reports up to this number do not count: the bullet was put back on trial after it.
    Column("measured_after", BigInteger, nullable=False),
    UniqueConstraint("dataset", "bullet_id", "text_version", name="bullet_trial_text"),
    Index("bullet_trial_position", "dataset", "position"),
)

effect_point = Table(
    "effect_point",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("trial_id", BigInteger, primary_key=True, autoincrement=False),
    Column("sessions", BigInteger, primary_key=True, autoincrement=False),
    Column("statistics", Text, nullable=False),
    Column("time", Timestamp, nullable=False),
)

serving = Table(
    "serving",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("serving_id", Text, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("has_playbook", Boolean, nullable=False),
    Column("exposures", LargeBinary, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("outcome", Float),
    Column("report_number", BigInteger),
    Column("reported_at", Timestamp),
)
_is_reported = serving.c.report_number.is_not(None)
Index(
    "serving_report",
    serving.c.dataset,
    serving.c.generation,
    serving.c.report_number,
    sqlite_where=_is_reported,
    postgresql_where=_is_reported,
)

decision = Table(
    "decision",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("bullet_id", Text, nullable=False),
    Column("text_version", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("statistics", Text, nullable=False),
    Column("time", Timestamp, nullable=False),
    Column("undone", Boolean, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("published_at", Timestamp),
)

requests = IdempotencyTable(metadata, "evidence_request")
