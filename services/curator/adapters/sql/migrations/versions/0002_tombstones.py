"""Tombstones of deleted datasets, and the dataset of each stored response, so that it can be erased.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; no dataset was deleted so far."""
    op.add_column("dataset", sa.Column("deleted_revision", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("dataset", sa.Column("deleted_at", sa.BigInteger))
    op.add_column("dataset", sa.Column("is_erased", sa.Integer, nullable=False, server_default="1"))
    op.add_column("dataset", sa.Column("first_revision", sa.BigInteger, nullable=False, server_default="1"))
    op.add_column("request", sa.Column("dataset", sa.Text, nullable=False, server_default=""))
    op.create_index("request_dataset", "request", ["dataset"])
