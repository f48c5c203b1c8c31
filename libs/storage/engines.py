"""Create engines for SQLite and PostgreSQL with the settings that durability and isolation rest on.

A committed transaction survives a power cut. A reader sees one state and never waits for a writer. A writer takes
SQLite's only write lock when its transaction begins, because taking it later can fail halfway.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url

from chassis.retry import RetryPolicy

LOCK_SECONDS = 30.0
"""Seconds that a statement waits for the lock that another writer holds."""
POSTGRES_CONNECT_SECONDS = 5
_CACHE_KIB = 32_768


def parse_location(location: str) -> URL:
    """Return the URL of a location: a URL or the name of a SQLite file. Raises SQLAlchemy's ArgumentError."""
    if "://" not in location:
        return URL.create("sqlite", database=location)
    url = make_url(location)
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def display_name(url: URL) -> str:
    """Return the name of the database in messages: the file, or the server without password and options."""
    return url.database or "" if is_sqlite(url) else url.set(query={}).render_as_string(hide_password=True)


def is_sqlite(url: URL) -> bool:
    """Return True for a SQLite file."""
    return url.drivername.startswith("sqlite")


def create_database_engine(
    url: URL,
    application: str,
    *,
    writes: bool,
    connections: int = 1,
    lock_seconds: float = LOCK_SECONDS,
    statement_seconds: float = 0,
    durable: bool = True,
) -> Engine:
    """Return an engine whose transactions can write, or, without `writes`, read one consistent state of the database.

    `application` is the name of the connections on the server. `statement_seconds` limits a statement on a server; 0
    sets no limit. With `durable=False`, for data that can be computed again, a power cut may lose the last commits,
    but not the consistency. Errors do not contain the parameters of statements, which may be user data.
    """
    if is_sqlite(url):
        engine = create_engine(
            url,
            pool_size=connections,
            max_overflow=0,
            hide_parameters=True,
            connect_args={"timeout": lock_seconds},
        )
        begin, synchronous = "BEGIN IMMEDIATE" if writes else "BEGIN", "FULL" if durable else "NORMAL"
        return _configure_sqlite(engine, begin, synchronous, lock_seconds)
    limits = {"lock_timeout": lock_seconds, "statement_timeout": statement_seconds}
    options = " ".join(f"-c {name}={round(seconds * 1000)}" for name, seconds in limits.items()) + " -c timezone=UTC"
    if not durable:
        options += " -c synchronous_commit=off"
    arguments = {"connect_timeout": POSTGRES_CONNECT_SECONDS, "application_name": application, "options": options}
    return create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_pre_ping=True,
        hide_parameters=True,
        isolation_level="READ COMMITTED" if writes else "REPEATABLE READ",
        connect_args=arguments,
    )


def get_insert(dialect: str) -> Callable[[Any], Any]:
    """Return the function of a dialect, `sqlite` or `postgresql`, that makes an INSERT with ON CONFLICT.

    The dialect that is not in use is not imported: that takes longer than opening a database.
    """
    insert: Callable[[Any], Any] = import_module(f"sqlalchemy.dialects.{dialect}").insert
    return insert


def get_sqlite_error_name(error: BaseException) -> str:
    """Return SQLite's name of an error, such as `SQLITE_FULL`; empty for any other error."""
    cause = getattr(error, "orig", None) or error
    return str(getattr(cause, "sqlite_errorname", "") or "")


def _configure_sqlite(engine: Engine, begin: str, synchronous: str, lock_seconds: float) -> Engine:
    if engine.url.database and not engine.url.database.startswith("file:"):
        Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)

    @event.listens_for(engine, "connect")
    def configure_connection(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transaction control is off; the function below begins transactions.
        connection.isolation_level = None
        _enable_wal(connection, lock_seconds)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        # SQLite's own function changes ASCII letters only.
        connection.create_function("lower", 1, _convert_to_lower, deterministic=True)

    def begin_transaction(connection: Any) -> None:
        connection.cursor().execute(begin).close()

    # Not a listener of an event: with one, SQLAlchemy looks for listeners at every statement.
    engine.dialect.do_begin = begin_transaction  # type: ignore[assignment]
    return engine


def _convert_to_lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else text


def _enable_wal(connection: sqlite3.Connection, lock_seconds: float) -> None:
    """Turn write-ahead logging on; SQLite itself does not wait while another connection turns it on."""
    policy = RetryPolicy(attempts=None, first_pause=0.02, longest_pause=0.02, total_seconds=lock_seconds)
    policy.run_blocking(
        lambda: connection.execute("PRAGMA journal_mode=WAL"),
        lambda error: isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY,
    )
