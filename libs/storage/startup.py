"""Open the database of a service at its start: wait for it, and name the setting in one line when that fails."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from chassis.errors import Aborted, HanseiError, Unavailable, shorten
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from chassis.settings import BadSetting
from libs.storage.engines import display_name, get_sqlite_error_name

RETRY = RetryPolicy(attempts=None, first_pause=0.5, longest_pause=2.0)
_OPENING_ERRORS = (HanseiError, SQLAlchemyError, sqlite3.Error, OSError)
_TRANSIENT_CODES = ("SQLITE_BUSY", "SQLITE_LOCKED")
# Of PostgreSQL: connection, rollback (a migration and the calls of an older replica can block each other), resources,
# lock, operator (it starts or stops). No state: no server answered.
_TRANSIENT_STATES = ("08", "40", "53", "55", "57")
_REASON_CHARS = 200

_log = get_logger(__name__)


@contextmanager
def report_setting(setting: str) -> Iterator[None]:
    """Raise BadSetting with the name of the setting for a broken URL, an unknown driver, a folder that cannot exist."""
    try:
        yield
    except BadSetting:
        raise
    except (ArgumentError, ImportError, OSError) as error:
        raise BadSetting(f"{setting}: {shorten(str(error), _REASON_CHARS)}") from error
    except ValueError as error:  # its text holds parts of the URL
        raise BadSetting(f"{setting}: is not the URL of a database") from error


async def wait_until_open(
    open_database: Callable[[], Awaitable[None]],
    url: URL,
    setting: str,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: Callable[[], float] = random.random,
) -> None:
    """Open a database; try again for `seconds` after a transient error. Raises BadSetting, which names the setting.

    Transient errors are those of a server that does not answer yet, and of a file that another process has locked.
    """
    database = f"the database {display_name(url)}"

    def log_pause(attempt: int, pause: float, error: BaseException) -> None:
        reason = _describe_reason(error, url)
        _log.warning("database does not answer; trying again", database=database, error=reason, pause=round(pause, 3))

    policy = replace(RETRY, total_seconds=seconds)
    try:
        await policy.run(open_database, _is_transient, before_pause=log_pause, clock=clock, sleep=sleep, rng=rng)
    except _OPENING_ERRORS as error:
        if _is_transient(error):
            outcome = f"{database} did not answer for {seconds:g} s: {_describe_reason(error, url)}"
        elif isinstance(error, HanseiError) and error.message and not isinstance(error, Unavailable):
            outcome = error.message
        else:
            outcome = f"{database} cannot be used: {_describe_reason(error, url)}"
        raise BadSetting(f"{setting}: {outcome}") from error


def _find_root_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain. Chains that lead back to themselves exist: migrations raise some."""
    chain = [error]
    while True:
        cause = getattr(error, "orig", None) or error.__cause__
        if not isinstance(cause, BaseException) or any(cause is earlier for earlier in chain):
            return error
        chain.append(cause)
        error = cause


def _is_transient(error: BaseException) -> bool:
    is_final = isinstance(error, HanseiError) and not isinstance(error, Unavailable | Aborted)
    if is_final or not isinstance(error, _OPENING_ERRORS):
        return False
    cause = _find_root_cause(error)
    if isinstance(cause, sqlite3.Error):
        return get_sqlite_error_name(cause).startswith(_TRANSIENT_CODES)
    if isinstance(cause, HanseiError):
        return isinstance(cause, Unavailable | Aborted)
    state = getattr(cause, "sqlstate", None) or ""
    return not isinstance(cause, OSError) and (not state or state.startswith(_TRANSIENT_STATES))


def _describe_reason(error: BaseException, url: URL) -> str:
    cause = _find_root_cause(error)
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    # Drivers do not repeat passwords; should one ever do so, it stays out of the log all the same.
    line = lines[0].replace(url.password, "***") if url.password else lines[0]
    return shorten(line, _REASON_CHARS)
