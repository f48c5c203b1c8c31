"""The log of executions with its leases, requests that are done, feedback, audits, and the secret of answer tokens.

Revision ID: 0001
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    _log_tables()
    _other_tables()


def _build_column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **options)


def _log_tables() -> None:
    op.create_table(
        "planner_execution",
        _build_column("execution_id", sa.Text, primary_key=True),
        _build_column("query", sa.String(200)),
        _build_column("status", sa.Text),
        _build_column("sequence", sa.Integer),
        _build_column("head_hash", sa.LargeBinary),
        _build_column("started_at", sa.BigInteger),
        _build_column("updated_at", sa.BigInteger),
        sa.Column("wake_at", sa.BigInteger),
        sa.Column("notify_at", sa.BigInteger),
        sa.Column("owner", sa.Text),
        _build_column("fence", sa.Integer),
        sa.Column("heartbeat", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_index("planner_execution_started", "planner_execution", ["started_at", "execution_id"])
    op.create_index("planner_execution_wake", "planner_execution", ["wake_at"])
    op.create_index("planner_execution_notify", "planner_execution", ["notify_at"])
    op.create_index("planner_execution_status", "planner_execution", ["status", "heartbeat"])
    op.create_table(
        "planner_event",
        _build_column("execution_id", sa.Text, primary_key=True),
        _build_column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        _build_column("created_at", sa.BigInteger),
        _build_column("kind", sa.Text),
        _build_column("payload", sa.LargeBinary),
        _build_column("hash", sa.LargeBinary),
        sqlite_with_rowid=False,
    )


def _other_tables() -> None:
    op.create_table(
        "planner_request",
        _build_column("request_id", sa.Text, primary_key=True),
        _build_column("method", sa.Text),
        _build_column("digest", sa.LargeBinary),
        _build_column("payload", sa.LargeBinary),
        _build_column("response", sa.LargeBinary),
        _build_column("stored_at", sa.BigInteger),
    )
    op.create_index("planner_request_stored_at", "planner_request", ["stored_at"])
    op.create_table(
        "planner_feedback",
        sa.Column("number", sa.Integer, primary_key=True),
        _build_column("confidence", sa.Float),
        _build_column("correct", sa.Boolean),
        _build_column("audit_probability", sa.Float),
        _build_column("execution_id", sa.Text),
        _build_column("step_id", sa.Integer),
        _build_column("created_at", sa.BigInteger),
    )
    op.create_table(
        "planner_audit",
        sa.Column("number", sa.Integer, primary_key=True),
        _build_column("kind", sa.Text),
        _build_column("execution_id", sa.Text),
        _build_column("step_id", sa.Integer),
        _build_column("tool", sa.Text),
        _build_column("score", sa.Float),
        _build_column("probability", sa.Float),
        _build_column("rate", sa.Float),
        _build_column("wrong", sa.Boolean),
    )
    op.create_index("planner_audit_execution", "planner_audit", ["execution_id"])
    op.create_table(
        "planner_secret",
        _build_column("name", sa.Text, primary_key=True),
        _build_column("value", sa.LargeBinary),
    )
