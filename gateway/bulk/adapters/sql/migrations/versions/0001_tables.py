"""Jobs, their trajectories, the requests that changed them, and replicas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_COUNTS = ("total", "waiting", "learned", "unchanged", "dead", "dropped")
_SUMS = ("waiting_bytes", "edits", "votes", "revision")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "bulk_job",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("max_iterations", sa.Integer),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("accepted_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("cancelled", sa.Boolean, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("requeue_at", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in _COUNTS),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _SUMS),
    )
    accepted, waiting, dead = sa.text("accepted_at IS NOT NULL"), sa.text("waiting > 0"), sa.text("state = 2")
    op.create_index(
        "bulk_job_accepted", "bulk_job", ["job_id"], unique=True, sqlite_where=accepted, postgresql_where=accepted
    )
    op.create_index("bulk_job_waiting", "bulk_job", ["created_at"], sqlite_where=waiting, postgresql_where=waiting)
    op.create_index("bulk_job_newest", "bulk_job", ["created_at", "key"])
    op.create_table(
        "bulk_trajectory",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("trajectory_id", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("bytes", "attempts", "starts")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("code", "reason", "message")),
        sa.Column("died_at", sa.BigInteger),
    )
    op.create_index(
        "bulk_trajectory_dead", "bulk_trajectory", ["key", "position"], sqlite_where=dead, postgresql_where=dead
    )
    failed = sa.text("state = 0 AND code != ''")
    op.create_index(
        "bulk_trajectory_failed", "bulk_trajectory", ["key", "position"], sqlite_where=failed, postgresql_where=failed
    )
    op.create_table(
        "bulk_request",
        sa.Column("request_id", sa.Text, primary_key=True),
        sa.Column("method", sa.Text, nullable=False),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("digest", "payload", "response")),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
    )
    op.create_index("bulk_request_stored_at", "bulk_request", ["stored_at"])
    op.create_table(
        "bulk_replica",
        sa.Column("executor", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("heartbeat", sa.BigInteger),
    )
