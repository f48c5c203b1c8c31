"""Entries, judgements, report kinds and idempotency records.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "leaderboard_entry",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("execution_id", sa.Text, nullable=False),
        sa.Column("team_id", sa.Text, nullable=False),
        sa.Column("round_number", sa.Integer, nullable=False),
        sa.Column("team_name", sa.Text, nullable=False),
        sa.Column("submission_content", sa.Text, nullable=False),
        sa.Column("submission_format", sa.Text, nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("score_details", sa.Text),
        sa.Column("final_submission", sa.Boolean, nullable=False),
        sa.Column("exit_reason", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("execution_id", "team_id", "round_number", name="leaderboard_entry_round"),
    )
    op.create_table(
        "round_judgement",
        sa.Column("execution_id", sa.Text, primary_key=True),
        sa.Column("team_id", sa.Text, primary_key=True),
        sa.Column("round_number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("should_continue", sa.Boolean),
        sa.Column("reasoning", sa.Text),
        sa.Column("confidence_score", sa.Float),
    )
    op.create_table(
        "report_kind",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "validator_request",
        sa.Column("request_id", sa.Text, primary_key=True),
        sa.Column("method", sa.Text, nullable=False),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("digest", "payload", "response")),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
    )
    op.create_index("validator_request_stored_at", "validator_request", ["stored_at"])
