"""Webhooks of executions.

Revision ID: 0002
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "planner_webhook",
        _build_column("execution_id", sa.Text, primary_key=True),
        _build_column("webhook_id", sa.Text, primary_key=True),
        _build_column("url", sa.Text),
        _build_column("token", sa.Text),
        _build_column("authorization", sa.Text),
        _build_column("sent_sequence", sa.Integer),
        _build_column("changed_at", sa.BigInteger),
        sa.Column("notify_at", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_index("planner_webhook_notify", "planner_webhook", ["notify_at"])


def _build_column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **options)
