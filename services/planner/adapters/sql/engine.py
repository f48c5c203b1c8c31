"""Engines for SQLite and PostgreSQL, and what their failures mean to a caller."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from chassis.errors import Aborted, HanseiError, Unavailable

_BUSY_SECONDS = 30


class StoreUnavailable(Unavailable):
    """The planner's database does not answer."""

    reason = "PLANNER_STORE_UNAVAILABLE"


def opened(place: str, *, connections: int, writes: bool) -> Engine:
    """An engine for a file name or a URL; a writing one takes SQLite's write lock when its transactions begin."""
    url = make_url(place) if "://" in place else URL.create("sqlite", database=place)
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if not url.drivername.startswith("sqlite"):
        return create_engine(url, pool_size=connections, max_overflow=0, pool_pre_ping=True)
    return _sqlite(url, connections, "BEGIN IMMEDIATE" if writes else "BEGIN")


def _sqlite(url: URL, connections: int, begin: str) -> Engine:
    if url.database and not url.database.startswith("file:"):
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, pool_size=connections, max_overflow=0, connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transaction control is off; the listener below begins them.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        # A commit that was answered survives a power cut.
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine


class LostRace(Aborted):
    """Another replica wrote the same row first; try again."""

    reason = "PLANNER_STORE_LOST_RACE"


def translated(error: Exception) -> Exception:
    """What a failure of the store means to the caller; the driver's own words stay in its cause."""
    if isinstance(error, IntegrityError):
        lost = LostRace("another planner was first: nothing was written; try again", retry_after=0.1)
        lost.__cause__ = error
        return lost
    if isinstance(error, SQLAlchemyError | sqlite3.Error | OSError) and not isinstance(error, HanseiError):
        unavailable = StoreUnavailable("the planner's store does not answer: nothing was written", retry_after=1)
        unavailable.__cause__ = error
        return unavailable
    return error
