"""Trials, servings, decisions, archived trajectories and idempotency records.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    _create_archive()
    op.create_table(
        "dataset_trials",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("assignment_key", sa.LargeBinary, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("is_running", sa.Boolean, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("began_at", sa.BigInteger, nullable=False),
        sa.Column("lift", sa.Text, nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("servings_served", "servings_withheld", "reports_served", "reports_withheld")
        ),
        sa.Column("enrolled", sa.Integer, nullable=False),
        sa.Column("decisions", sa.Integer, nullable=False),
        sa.Column("corrections", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "bullet_trial",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("bullet_id", sa.Text, nullable=False),
        sa.Column("text_version", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("statistics", sa.Text, nullable=False),
        sa.Column("drift", sa.Text, nullable=False),
        sa.Column("measured_after", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("dataset", "bullet_id", "text_version", name="bullet_trial_text"),
    )
    op.create_index("bullet_trial_position", "bullet_trial", ["dataset", "position"])
    op.create_table(
        "effect_point",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("trial_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("sessions", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("statistics", sa.Text, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "serving",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("serving_id", sa.Text, primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("has_playbook", sa.Boolean, nullable=False),
        sa.Column("exposures", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Float),
        sa.Column("report_number", sa.BigInteger),
        sa.Column("reported_at", sa.BigInteger),
    )
    reported = sa.text("report_number IS NOT NULL")
    op.create_index(
        "serving_report",
        "serving",
        ["dataset", "generation", "report_number"],
        sqlite_where=reported,
        postgresql_where=reported,
    )
    op.create_table(
        "decision",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("bullet_id", "text_version", "before", "after", "statistics")
        ),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("undone", sa.Boolean, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("published_at", sa.BigInteger),
    )
    op.create_table(
        "evidence_request",
        sa.Column("request_id", sa.Text, primary_key=True),
        sa.Column("method", sa.Text, nullable=False),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("digest", "payload", "response")),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
    )
    op.create_index("evidence_request_stored_at", "evidence_request", ["stored_at"])
    _create_guard_tables()


def _create_archive() -> None:
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "archive_dataset",
        sa.Column("id", number, primary_key=True, autoincrement=True),
        sa.Column("dataset", sa.Text, nullable=False, unique=True),
        sa.Column("max_age_days", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("max_bytes", "trajectories", "bytes")),
        sa.Column("deleted_at", sa.BigInteger),
    )
    op.create_table(
        "archive_trajectory",
        sa.Column("number", number, primary_key=True, autoincrement=True),
        sa.Column("dataset_id", sa.BigInteger, nullable=False),
        sa.Column("trajectory_id", sa.Text, nullable=False),
        sa.Column("content_hash", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("created_at", "learned_at", "stored_at")),
        sa.Column("deleted_at", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text),
        sa.Column("repeats_error", sa.Boolean, nullable=False),
        sa.Column("object_key", sa.Text),
        sa.Column("body", sa.LargeBinary),
        *(sa.Column(name, sa.BigInteger) for name in ("pack_number", "pack_start", "pack_length")),
        sa.UniqueConstraint("dataset_id", "trajectory_id", "content_hash", name="archive_trajectory_content"),
    )
    op.create_index("archive_trajectory_number", "archive_trajectory", ["dataset_id", "number"])
    op.create_index("archive_trajectory_pack", "archive_trajectory", ["pack_number"])
    readable = sa.text("deleted_at IS NULL")
    op.create_index(
        "archive_trajectory_stored",
        "archive_trajectory",
        ["dataset_id", "stored_at"],
        sqlite_where=readable,
        postgresql_where=readable,
    )
    op.create_table(
        "archive_pack",
        sa.Column("number", number, primary_key=True, autoincrement=True),
        sa.Column("dataset_id", sa.BigInteger, nullable=False),
        sa.Column("plain_bytes", sa.BigInteger, nullable=False),
        sa.Column("is_stale", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("archive_pack_dataset", "archive_pack", ["dataset_id", "is_stale"])
    op.create_table(
        "archive_mark",
        sa.Column("dataset_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("value", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "archive_day",
        sa.Column("dataset_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("has_bullets", sa.Boolean, primary_key=True),
        sa.Column("agent", sa.Text, primary_key=True),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("trajectories", "succeeded", "failed", "with_errors", "with_repeated_errors", "steps")
        ),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("with_tokens", "input_tokens", "cached_input_tokens", "output_tokens")
        ),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("with_cost", "cost_nano_usd")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "archive_object",
        sa.Column("object_key", sa.Text, primary_key=True),
        sa.Column("unused_from", sa.BigInteger, nullable=False),
    )


def _create_guard_tables() -> None:
    op.create_table(
        "guard_event",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("guard_event_created_at", "guard_event", ["created_at"])
    op.create_table(
        "guard_firing",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("call_digest", sa.LargeBinary, primary_key=True),
        sa.Column("bullet_id", sa.Text, primary_key=True),
        sa.Column("mode", sa.Integer, nullable=False),
        sa.Column("is_withheld", sa.Boolean, nullable=False),
        sa.Column("probability", sa.Float, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("guard_firing_bullet", "guard_firing", ["dataset", "bullet_id"])
    op.create_index("guard_firing_created_at", "guard_firing", ["created_at"])
    op.create_table(
        "guard_dataset",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("assignment_key", sa.LargeBinary, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("sessions", "passed", "evaluated")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("trials", "decisions")),
    )
    op.create_table(
        "guard_session",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("succeeded", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("guard_session_created_at", "guard_session", ["created_at"])
    op.create_table(
        "guard_trial",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("bullet_id", sa.Text, primary_key=True),
        sa.Column("target", sa.Text, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("mode", "position")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("since", "passed_before", "alarms", "hits")),
        sa.Column("effect", sa.Text, nullable=False),
        sa.Column("is_proven", sa.Boolean, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("earned", "cap")),
    )
    op.create_table(
        "guard_decision",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("bullet_id", "target")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("before", "after")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("reason", "author")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("undone", sa.Boolean, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("published_at", sa.BigInteger),
    )
    op.create_table(
        "guard_backtest",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("target_digest", sa.LargeBinary, primary_key=True),
        sa.Column("false_alarm_bound", sa.Float, nullable=False),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
