"""Translate errors of database drivers into the errors that callers know; each names its store.

StoreUnavailable   UNAVAILABLE           the database does not answer, or is closed
StoreConflict      ABORTED               another writer inserted the same row first
StoreFull          RESOURCE_EXHAUSTED    the disk is full
StoreReadOnly      FAILED_PRECONDITION   the database cannot be written
StoreCorrupt       DATA_LOSS             the database is damaged
Internal           INTERNAL              the database refused a statement: a fault of the service

The text of a driver never leaves the process: it may hold stored data. It stays in the log and in `__cause__`.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from chassis.errors import Aborted, DataLoss, FailedPrecondition, HanseiError, Internal, ResourceExhausted, Unavailable
from libs.storage.engines import get_sqlite_error_name

RETRY_AFTER_SECONDS = 1.0
CONFLICT_RETRY_AFTER_SECONDS = 0.1
_SQLITE_DUPLICATES = ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_ROWID")
_DRIVER_ERRORS = (DBAPIError, PoolTimeout, sqlite3.Error, OSError)


class StoreUnavailable(Unavailable):
    """The database does not answer; nothing was written. A request with an idempotency key can be sent again."""

    reason = "STORE_UNAVAILABLE"


class StoreConflict(Aborted):
    """Another writer inserted the same row first; nothing was written."""

    reason = "STORE_CONFLICT"


class StoreFull(ResourceExhausted):
    """The disk of the database is full; nothing was written."""

    reason = "STORE_FULL"


class StoreReadOnly(FailedPrecondition):
    """The database cannot be written."""

    reason = "STORE_READ_ONLY"


class StoreCorrupt(DataLoss):
    """The database is damaged; the message names it and the way out."""

    reason = "STORE_CORRUPT"


class UndecodableRow(Exception):
    """A stored value cannot be decoded; the text says which, without the value. It becomes StoreCorrupt."""


def translate_error(error: Exception, store: str) -> Exception:
    """Return the error of a failed transaction for the caller; errors that are no driver's are returned as they are.

    `store` names the store in messages, such as `playbook store /var/lib/hansei/curator.db`.
    """
    if isinstance(error, HanseiError) or not isinstance(error, (*_DRIVER_ERRORS, UndecodableRow)):
        return error
    translated = _translate(error, store)
    translated.__cause__ = error
    return translated


def build_unavailable_error(store: str, state: str = "does not answer") -> StoreUnavailable:
    """Return the error of a store that did not perform a transaction; `state` says why."""
    return StoreUnavailable(f"the {store} {state}: nothing was written", retry_after=RETRY_AFTER_SECONDS)


def corrupt_error(store: str, detail: str) -> StoreCorrupt:
    """Return the error for damaged data, with the remedy."""
    return StoreCorrupt(
        f"the {store} is damaged ({detail}); nothing was changed. Stop the service, keep a copy of the database, put"
        " back a backup, and start again",
        metadata={"store": store},
    )


def _translate(error: Exception, store: str) -> HanseiError:
    if isinstance(error, UndecodableRow):
        return corrupt_error(store, str(error))
    cause = getattr(error, "orig", None) or error
    code, state = get_sqlite_error_name(cause), str(getattr(cause, "sqlstate", None) or "")
    if code in _SQLITE_DUPLICATES or state == "23505":
        message = f"another writer of the {store} was first: nothing was written; try again"
        return StoreConflict(message, retry_after=CONFLICT_RETRY_AFTER_SECONDS)
    if code.startswith("SQLITE_FULL") or state == "53100":
        return StoreFull(f"the disk of the {store} is full: nothing was written; free space and retry")
    if code.startswith("SQLITE_NOTADB"):
        return corrupt_error(store, "not a database")
    if code.startswith("SQLITE_CORRUPT"):
        return corrupt_error(store, "damaged pages")
    if state.startswith("XX"):
        return corrupt_error(store, "the server reports damaged data")
    if state == "25006":
        return StoreReadOnly(f"the {store} is read-only: connect to the primary server")
    if code.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        return StoreReadOnly(
            f"the {store} cannot be written: check that the file and its directory exist and are writable by this"
            " process"
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR")) or (not code and _is_connection_error(error)):
        return build_unavailable_error(store)
    return Internal(f"the {store} refused a statement")


def _is_connection_error(error: Exception) -> bool:
    return isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError) or bool(
        getattr(error, "connection_invalidated", False)
    )
