"""Partitions of guarded sessions by time, which are dropped whole; SQLite has none.

Revision ID: 0003
"""

from __future__ import annotations

from alembic import op

from libs.storage.partitions import partition_by_time

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Move the rows into partitions, and drop the indexes by which rows were found to be deleted."""
    connection = op.get_bind()
    for table, key in (
        ("guard_event", "dataset, session_id, number"),
        ("guard_firing", "dataset, session_id, step, call_digest, bullet_id"),
        ("guard_session", "dataset, session_id"),
    ):
        if connection.dialect.name == "postgresql":
            op.drop_index(f"{table}_created_at")
        partition_by_time(connection, table, "created_at", primary_key=f"{key}, created_at")
