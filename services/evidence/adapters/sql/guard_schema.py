"""The tables of guards: events of sessions, firings, the keys of random assignments, backtests, and
the measurements of guards with the decisions about their modes.

PostgreSQL partitions `DROPPED_BY_TIME` by `created_at`, which their primary keys contain there. No constraint then
compares rows of different times, so an insert takes the turn of its session or locks its dataset, and looks first.
"""

from __future__ import annotations

from hashlib import blake2b

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, Table, Text

from libs.storage.timestamps import Timestamp
from services.evidence.adapters.sql.schema import metadata

guard_event = Table(
    "guard_event",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Index("guard_event_created_at", "created_at"),
)

guard_firing = Table(
    "guard_firing",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("call_digest", LargeBinary, primary_key=True),
    Column("bullet_id", Text, primary_key=True),
    Column("mode", Integer, nullable=False),
    Column("is_withheld", Boolean, nullable=False),
    Column("probability", Float, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Index("guard_firing_bullet", "dataset", "bullet_id"),
    Index("guard_firing_created_at", "created_at"),
)

guard_dataset = Table(
    "guard_dataset",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("assignment_key", LargeBinary, nullable=False),
    # Sessions that have ended, those of them that passed, and how many of them the last evaluation of guards saw.
    Column("sessions", BigInteger, nullable=False),
    Column("passed", BigInteger, nullable=False),
    Column("evaluated", BigInteger, nullable=False),
    Column("trials", Integer, nullable=False),
    Column("decisions", Integer, nullable=False),
)

guard_session = Table(
    "guard_session",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("succeeded", Boolean, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Index("guard_session_created_at", "created_at"),
)

guard_trial = Table(
    "guard_trial",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("bullet_id", Text, primary_key=True),
    Column("target", Text, nullable=False),
    Column("mode", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("since", Timestamp, nullable=False),
    Column("passed_before", BigInteger, nullable=False),
    Column("alarms", BigInteger, nullable=False),
    Column("hits", BigInteger, nullable=False),
    Column("effect", Text, nullable=False),
    Column("is_proven", Boolean, nullable=False),
    Column("earned", Integer, nullable=False),
    Column("cap", Integer, nullable=False),
)

guard_decision = Table(
    "guard_decision",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("bullet_id", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("before", Integer, nullable=False),
    Column("after", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("undone", Boolean, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("published_at", Timestamp),
)

guard_backtest = Table(
    "guard_backtest",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("target_digest", LargeBinary, primary_key=True),
    Column("false_alarm_bound", Float, nullable=False),
    Column("counts", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    # The last archived trajectory that it counts; later ones are added to it.
    Column("archived_number", BigInteger, nullable=False, server_default="0"),
)

DROPPED_BY_TIME = (guard_event, guard_firing, guard_session)
"""Tables whose old rows are dropped for all datasets at once."""


def digest_text(text: str) -> bytes:
    """Return the digest under which a call or a target is stored."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
