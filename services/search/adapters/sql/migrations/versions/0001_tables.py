"""The cache of embeddings, collections and their documents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

_SORTED = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "embeddings",
        sa.Column("model", sa.String(256), primary_key=True),
        sa.Column("content_hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "collection",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("name", _SORTED, nullable=False, unique=True),
        sa.Column("backend", sa.String(16), nullable=False),
        sa.Column("chunk_tokens", sa.Integer, nullable=False),
        sa.Column("chunk_overlap", sa.Integer, nullable=False),
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("documents", sa.BigInteger, nullable=False),
        sa.Column("chunks", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "document",
        sa.Column("collection", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("id", _SORTED, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("characters", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("spans", sa.LargeBinary, nullable=False),
        sa.Column("text", sa.Text),
        sa.Column("vectors", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("collection", "id"),
    )
    op.create_index("document_revision", "document", ["collection", "revision"], unique=True)
