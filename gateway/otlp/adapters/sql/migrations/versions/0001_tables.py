"""Traces and their parts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "otlp_trace",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("trace_id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("root_ended", sa.Boolean, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("last_number", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
    )
    op.create_index("otlp_trace_due", "otlp_trace", ["due_at"])
    op.create_index("otlp_trace_id", "otlp_trace", ["trace_id"])
    op.create_table(
        "otlp_part",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("trace_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_index("otlp_part_trace", "otlp_part", ["dataset", "trace_id"])
