"""Partitions of the log and of votes, by dataset; SQLite has none.

Revision ID: 0003
"""

from __future__ import annotations

from alembic import op

from libs.storage.partitions import partition_by_hash

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Move the rows into partitions."""
    for table in ("revision", "change", "vote"):
        partition_by_hash(op.get_bind(), table, "dataset")
