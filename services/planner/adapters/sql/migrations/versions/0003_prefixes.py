"""Room for ids that begin with a prefix.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_EXECUTION_ID = tuple(
    (f"planner_{name}", "execution_id", 12, 140) for name in ("executions", "events", "feedback", "audits")
)
_COLUMNS = (*_EXECUTION_ID, ("planner_requests", "request_id", 36, 164))


def upgrade() -> None:
    """Widens the columns; PostgreSQL does so without writing the rows anew."""
    for table, column, narrow, wide in _COLUMNS:
        _resize(table, column, narrow, wide)


def downgrade() -> None:
    """Narrows them, which fails if an id needs the room."""
    for table, column, narrow, wide in _COLUMNS:
        _resize(table, column, wide, narrow)


def _resize(table: str, column: str, now: int, then: int) -> None:
    """SQLite does not look at lengths and cannot change them, so there they stay."""
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column(table, column, existing_type=sa.String(now), type_=sa.String(then), existing_nullable=False)
