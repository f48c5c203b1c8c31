"""What the failures of the playbook store mean to a caller; the driver's own words stay in the log."""

from __future__ import annotations

import sqlite3

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from chassis.errors import HanseiError, Internal
from libs.sql.engines import shown, sqlite_code
from services.curator.domain.errors import StoreCorrupt, StoreFull, StoreReadOnly, StoreUnavailable


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
    code = sqlite_code(error)
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
