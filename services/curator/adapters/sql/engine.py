"""Engines for SQLite and PostgreSQL, their settings, and what their errors mean to a caller."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from chassis.errors import HanseiError, Internal
from services.curator.domain.errors import StoreCorrupt, StoreFull, StoreReadOnly, StoreUnavailable

# Another process may hold SQLite's only write lock while it commits a batch.
SQLITE_BUSY_SECONDS = 30
POSTGRES_CONNECT_SECONDS = 5
POSTGRES_LOCK_MILLISECONDS = 30_000


def parsed_url(database_url: str) -> URL:
    """The URL with the driver this service uses: `sqlite` as it is, `postgresql` by psycopg."""
    url = make_url(database_url)
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def shown(url: URL) -> str:
    """How messages name the database: the file, or the server without its password."""
    return url.database or "" if url.drivername.startswith("sqlite") else url.render_as_string(hide_password=True)


def writing_engine(url: URL) -> Engine:
    """The engine of the one writing thread: its transactions take the write lock when they begin."""
    if url.drivername.startswith("sqlite"):
        return _sqlite(url, begin="BEGIN IMMEDIATE", pool_size=1)
    return create_engine(url, pool_size=1, max_overflow=0, pool_pre_ping=True, connect_args=_postgres_arguments())


def reading_engine(url: URL, threads: int) -> Engine:
    """The engine of the reading threads: each transaction sees one state of the database."""
    if url.drivername.startswith("sqlite"):
        return _sqlite(url, begin="BEGIN", pool_size=threads)
    return create_engine(
        url,
        pool_size=threads,
        max_overflow=0,
        pool_pre_ping=True,
        isolation_level="REPEATABLE READ",
        connect_args=_postgres_arguments(),
    )


def _sqlite(url: URL, *, begin: str, pool_size: int) -> Engine:
    if url.database and not url.database.startswith("file:"):
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, pool_size=pool_size, max_overflow=0, connect_args={"timeout": SQLITE_BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transaction control is off; the listener below begins them.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        # A commit that was answered survives a power cut.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA cache_size=-32768")

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _postgres_arguments() -> dict[str, Any]:
    return {
        "connect_timeout": POSTGRES_CONNECT_SECONDS,
        "application_name": "hansei-curator",
        "options": f"-c lock_timeout={POSTGRES_LOCK_MILLISECONDS} -c timezone=UTC",
    }


def translated(error: Exception, url: URL) -> Exception:
    """What a failed statement means to the caller. Errors of our own pass; text of the driver stays in the log."""
    name = shown(url)
    if isinstance(error, StoreCorrupt):
        return corrupt(name, error.message)
    if isinstance(error, HanseiError) or not isinstance(error, DBAPIError | PoolTimeout | sqlite3.Error | OSError):
        return error
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause, name)
    state = getattr(cause, "sqlstate", None) or ""
    if state == "53100":
        return StoreFull(f"the disk of the playbook store {name} is full: nothing was written; free space and retry")
    if state == "25006":
        return StoreReadOnly(f"the playbook store {name} is read-only: connect to the primary server")
    if state.startswith("XX"):
        return corrupt(name, "the server reports damaged data")
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError) or getattr(
        error, "connection_invalidated", False
    ):
        return StoreUnavailable(f"the playbook store {name} does not answer: nothing was written", retry_after=1)
    return Internal("the playbook store refused a statement")


def corrupt(name: str, detail: str) -> StoreCorrupt:
    """The error for damaged data, with the way out."""
    return StoreCorrupt(
        f"The playbook store {name} is damaged ({detail}); nothing was changed. Stop the service, keep a copy of the"
        " file, put back a backup or import an export of its playbooks, and start again",
        metadata={"store": name},
    )


def _of_sqlite(error: sqlite3.Error, name: str) -> HanseiError:
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return corrupt(name, "not a database" if code.startswith("SQLITE_NOTADB") else "damaged pages")
    if code.startswith("SQLITE_FULL"):
        return StoreFull(f"the disk of the playbook store {name} is full: nothing was written; free space and retry")
    if code.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        return StoreReadOnly(
            f"the playbook store {name} cannot be written: check that the file and its directory exist and are"
            " writable by this process"
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR")):
        return StoreUnavailable(f"the playbook store {name} does not answer: nothing was written", retry_after=1)
    return Internal("the playbook store refused a statement")
