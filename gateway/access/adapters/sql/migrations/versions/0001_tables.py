"""Keys, calls by day, owners of resources, and audit records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "access_key",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(32), nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("calls_per_second", sa.Float, nullable=False),
        sa.Column("calls_per_day", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String(256), nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
    )
    op.create_index("access_key_by_tenant", "access_key", ["tenant", "id"])
    op.create_table(
        "access_call_count",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("principal", sa.String(256), primary_key=True),
        sa.Column("calls", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "access_owner",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("resource_id", sa.String(256), primary_key=True),
        sa.Column("tenant", sa.String(32), nullable=False),
    )
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "access_audit_record",
        sa.Column("number", number, primary_key=True, autoincrement=True),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("principal", sa.String(256), nullable=False),
        sa.Column("tenant", sa.String(32), nullable=False),
        sa.Column("method", sa.String(256), nullable=False),
        sa.Column("names", sa.Text, nullable=False),
        sa.Column("correlation_id", sa.String(128), nullable=False),
        sa.Column("request_id", sa.String(36), nullable=False),
        sa.Column("code", sa.String(32), nullable=False),
    )
    op.create_index("access_audit_record_by_tenant", "access_audit_record", ["tenant", "number"])
