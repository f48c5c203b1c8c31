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


def _add_text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def _add_big(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _add_bytes(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary, nullable=False)


def _add_int(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=False)


def _log_tables() -> None:
    op.create_table(
        "dataset",
        _add_text("name"),
        _add_big("revision"),
        _add_int("bullets"),
        _add_int("retired"),
        _add_big("next_slot"),
        _add_big("committed"),
        _add_text("created_at"),
        _add_text("updated_at"),
        sa.Column("policy", sa.Text),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "revision",
        _add_text("dataset"),
        _add_big("number"),
        _add_big("committed"),
        _add_text("kind"),
        _add_text("author"),
        _add_text("reason"),
        _add_text("request_id"),
        _add_text("source_trajectory"),
        _add_text("model"),
        _add_text("summary"),
        _add_int("bullets_before"),
        _add_int("bullets_after"),
        sa.Column("report", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "number"),
    )
    op.create_index("revision_committed", "revision", ["dataset", "committed"])
    op.create_index("revision_trajectory", "revision", ["dataset", "source_trajectory"])
    op.create_table(
        "change",
        _add_text("dataset"),
        _add_big("revision"),
        _add_big("slot"),
        _add_text("bullet_id"),
        _add_int("position"),
        sa.Column("after", sa.LargeBinary),
        sa.PrimaryKeyConstraint("dataset", "revision", "slot"),
    )
    op.create_index("change_bullet", "change", ["dataset", "bullet_id", "revision"])
    op.create_index("change_slot", "change", ["dataset", "slot", "revision"])


def _vote_table() -> None:
    op.create_table(
        "vote",
        _add_text("dataset"),
        _add_big("slot"),
        _add_text("trajectory"),
        _add_int("round"),
        _add_big("cast_in"),
        sa.Column("withdrawn_in", sa.BigInteger),
        _add_int("helpful"),
        _add_int("harmful"),
        _add_text("reason"),
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
        _add_text("dataset"),
        _add_big("slot"),
        _add_text("bullet_id"),
        sa.Column("number", sa.BigInteger),
        _add_text("fingerprint"),
        _add_int("tokens"),
        _add_text("body"),
        sa.PrimaryKeyConstraint("dataset", "slot"),
    )
    op.create_index("bullet_id", "bullet", ["dataset", "bullet_id", "slot"])
    op.create_index("bullet_number", "bullet", ["dataset", "number"])
    op.create_index("bullet_fingerprint", "bullet", ["dataset", "fingerprint", "slot"])
    op.create_table(
        "request",
        _add_text("request_id"),
        _add_text("method"),
        _add_bytes("digest"),
        _add_bytes("payload"),
        _add_bytes("response"),
        _add_big("stored_at"),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index("request_stored_at", "request", ["stored_at"])
    op.create_table(
        "pending",
        _add_text("id"),
        _add_text("dataset"),
        _add_text("state"),
        _add_big("proposed"),
        _add_big("expires"),
        _add_text("body"),
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
