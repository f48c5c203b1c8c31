"""The log of a dataset, its fold, votes, idempotency records and pending changes.

Revision ID: 0001
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    _log_tables()
    _vote_table()
    _other_tables()
    _embedding_table()


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def _big(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _bytes(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary, nullable=False)


def _int(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=False)


def _log_tables() -> None:
    op.create_table(
        "dataset",
        _text("name"),
        _big("revision"),
        _int("bullets"),
        _int("retired"),
        _big("next_slot"),
        _big("committed"),
        _text("created_at"),
        _text("updated_at"),
        sa.Column("policy", sa.Text),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "revision",
        _text("dataset"),
        _big("number"),
        _big("committed"),
        _text("kind"),
        _text("author"),
        _text("reason"),
        _text("request_id"),
        _text("source_trajectory"),
        _text("model"),
        _text("summary"),
        _int("bullets_before"),
        _int("bullets_after"),
        _text("report"),
        sa.PrimaryKeyConstraint("dataset", "number"),
    )
    op.create_index("revision_committed", "revision", ["dataset", "committed"])
    op.create_index("revision_trajectory", "revision", ["dataset", "source_trajectory"])
    op.create_table(
        "change",
        _text("dataset"),
        _big("revision"),
        _big("slot"),
        _text("bullet_id"),
        _int("position"),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        sa.PrimaryKeyConstraint("dataset", "revision", "slot"),
    )
    op.create_index("change_bullet", "change", ["dataset", "bullet_id", "revision"])
    op.create_index("change_slot", "change", ["dataset", "slot", "revision"])


def _vote_table() -> None:
    op.create_table(
        "vote",
        _text("dataset"),
        _big("slot"),
        _text("trajectory"),
        _int("round"),
        _big("cast_in"),
        sa.Column("withdrawn_in", sa.BigInteger),
        _int("helpful"),
        _int("harmful"),
        _text("reason"),
        sa.PrimaryKeyConstraint("dataset", "slot", "trajectory", "round", "cast_in"),
    )
    standing = sa.text("withdrawn_in IS NULL")
    op.create_index(
        "vote_once",
        "vote",
        ["dataset", "slot", "trajectory", "round"],
        unique=True,
        sqlite_where=standing,
        postgresql_where=standing,
    )
    op.create_index("vote_trajectory", "vote", ["dataset", "trajectory"])
    op.create_index("vote_cast", "vote", ["dataset", "cast_in"])
    op.create_index("vote_withdrawn", "vote", ["dataset", "withdrawn_in"])


def _other_tables() -> None:
    op.create_table(
        "bullet",
        _text("dataset"),
        _big("slot"),
        _text("bullet_id"),
        sa.Column("number", sa.BigInteger),
        _text("fingerprint"),
        _int("tokens"),
        _text("body"),
        sa.PrimaryKeyConstraint("dataset", "slot"),
    )
    op.create_index("bullet_id", "bullet", ["dataset", "bullet_id", "slot"])
    op.create_index("bullet_number", "bullet", ["dataset", "number"])
    op.create_index("bullet_fingerprint", "bullet", ["dataset", "fingerprint", "slot"])
    op.create_table(
        "request",
        _text("request_id"),
        _text("method"),
        _bytes("digest"),
        _bytes("payload"),
        _bytes("response"),
        _big("stored_at"),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index("request_stored_at", "request", ["stored_at"])
    op.create_table(
        "pending",
        _text("id"),
        _text("dataset"),
        _text("state"),
        _big("proposed"),
        _big("expires"),
        _text("body"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pending_dataset", "pending", ["dataset", "proposed", "id"])
    op.create_index("pending_expires", "pending", ["state", "expires"])


def _embedding_table() -> None:
    op.create_table(
        "embeddings",
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("content_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("model", "content_hash"),
    )
