"""The tables of the validator, the same for SQLite and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, MetaData, Table, Text, UniqueConstraint

from libs.storage.idempotency import IdempotencyTable
from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "validator_schema_version")

metadata = MetaData()

entry = Table(
    "leaderboard_entry",
    metadata,
    # SQLite gives automatic ids to INTEGER keys only.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("execution_id", Text, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("round_number", Integer, nullable=False),
    Column("team_name", Text, nullable=False),
    Column("submission_content", Text, nullable=False),
    Column("submission_format", Text, nullable=False),
    Column("score", Float, nullable=False),
    Column("score_details", Text),
    Column("final_submission", Boolean, nullable=False),
    Column("exit_reason", Text),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    UniqueConstraint("execution_id", "team_id", "round_number", name="leaderboard_entry_round"),
)

judgement = Table(
    "round_judgement",
    metadata,
    Column("execution_id", Text, primary_key=True),
    Column("team_id", Text, primary_key=True),
    Column("round_number", Integer, primary_key=True, autoincrement=False),
    Column("should_continue", Boolean),
    Column("reasoning", Text),
    Column("confidence_score", Float),
)

kind = Table(
    "report_kind",
    metadata,
    Column("name", Text, primary_key=True),
    Column("definition", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
)

requests = IdempotencyTable(metadata, "validator_request")
