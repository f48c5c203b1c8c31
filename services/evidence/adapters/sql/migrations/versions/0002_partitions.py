"""Partitions of servings and of archived trajectories, by dataset; SQLite has none.

Revision ID: 0002
"""

from __future__ import annotations

from alembic import op

from libs.storage.partitions import partition_by_hash

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Move the rows into partitions. Their keys contain the dataset; numbers stay unique by their sequence."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.drop_index("archive_trajectory_number")  # the new primary key has the same columns
    partition_by_hash(connection, "serving", "dataset")
    partition_by_hash(connection, "archive_trajectory", "dataset_id", primary_key="dataset_id, number")
    partition_by_hash(connection, "archive_pack", "dataset_id", primary_key="dataset_id, number")
    partition_by_hash(connection, "archive_mark", "dataset_id")
