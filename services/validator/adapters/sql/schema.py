"""The tables of the validator, the same for SQLite and PostgreSQL. Times are microseconds since 1970 UTC."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, MetaData, Table, Text, UniqueConstraint

VERSION_TABLE = "validator_schema_version"
"""Of its own name, so that one PostgreSQL database may serve several services."""

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
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
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
    Column("created_at", BigInteger, nullable=False),
)

request = Table(
    "validator_request",
    metadata,
    Column("request_id", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("done_at", BigInteger, nullable=False),
)
