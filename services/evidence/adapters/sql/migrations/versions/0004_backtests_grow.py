"""The last archived trajectory that a stored backtest counts, so that later ones can be added to it.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column; backtests that are stored already count what the archive has now."""
    op.add_column("guard_backtest", sa.Column("archived_number", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE guard_backtest SET archived_number = (SELECT COALESCE(MAX(number), 0) FROM archive_trajectory)")
