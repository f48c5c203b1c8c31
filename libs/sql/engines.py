"""Engines for SQLite and PostgreSQL with the settings on which our promises rest.

A commit that was answered survives a power cut; readers see one state and never wait for a writer; a writer takes
SQLite's only write lock when its transaction begins, because taking it later can fail halfway.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url

LOCK_SECONDS = 30.0
"""How long a statement waits for the lock that another writer holds."""
POSTGRES_CONNECT_SECONDS = 5
_CACHE_KIB = 32_768
_WAL_RETRY_SECONDS = 0.01


def url_of(place: str) -> URL:
    """The URL of a database given as a URL or as the name of a SQLite file. Raises SQLAlchemy's ArgumentError."""
    if "://" not in place:
        return URL.create("sqlite", database=place)
    url = make_url(place)
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def shown(url: URL) -> str:
    """How messages name the database: the file, or the server without its password, or options, which may hold one."""
    return url.database or "" if is_sqlite(url) else url.set(query={}).render_as_string(hide_password=True)


def is_sqlite(url: URL) -> bool:
    """Whether the database is a SQLite file."""
    return url.drivername.startswith("sqlite")


def engine_for(
    url: URL,
    application: str,
    *,
    writes: bool,
    connections: int = 1,
    lock_seconds: float = LOCK_SECONDS,
    statement_seconds: float = 0,
    durable: bool = True,
) -> Engine:
    """An engine whose transactions write, or see one state of the database. `application` names it to the server.

    `statement_seconds` bounds a statement on a server; 0 does not. What is not `durable` may lose its last commits in
    a power cut, never its consistency: for what can be made again.
    """
    if is_sqlite(url):
        engine = create_engine(url, pool_size=connections, max_overflow=0, connect_args={"timeout": lock_seconds})
        return _sqlite(engine, "BEGIN IMMEDIATE" if writes else "BEGIN", "FULL" if durable else "NORMAL", lock_seconds)
    limits = {"lock_timeout": lock_seconds, "statement_timeout": statement_seconds}
    options = " ".join(f"-c {name}={round(seconds * 1000)}" for name, seconds in limits.items()) + " -c timezone=UTC"
    arguments = {"connect_timeout": POSTGRES_CONNECT_SECONDS, "application_name": application, "options": options}
    return create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_pre_ping=True,
        isolation_level="READ COMMITTED" if writes else "REPEATABLE READ",
        connect_args=arguments,
    )


def insert_of(dialect: str) -> Callable[[Any], Any]:
    """The INSERT that takes an ON CONFLICT, which both databases have and SQLAlchemy words for each.

    `dialect` is `sqlite` or `postgresql`; importing the one that is not in use costs more than opening a database.
    """
    inserting: Callable[[Any], Any] = import_module(f"sqlalchemy.dialects.{dialect}").insert
    return inserting


def sqlite_code(error: BaseException) -> str:
    """SQLite's name of what went wrong, such as `SQLITE_FULL`; empty for anything else."""
    cause = getattr(error, "orig", None) or error
    return str(getattr(cause, "sqlite_errorname", "") or "")


def _sqlite(engine: Engine, begin: str, synchronous: str, lock_seconds: float) -> Engine:
    if engine.url.database and not engine.url.database.startswith("file:"):
        Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transaction control is off; the listener below begins them.
        connection.isolation_level = None
        _use_wal(connection, lock_seconds)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _use_wal(connection: sqlite3.Connection, lock_seconds: float) -> None:
    """Turn write-ahead logging on; SQLite does not wait by itself while another connection is turning it on."""
    give_up = time.monotonic() + lock_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(_WAL_RETRY_SECONDS)
