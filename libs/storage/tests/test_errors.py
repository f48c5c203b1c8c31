"""One translation of driver errors: each names the store, none repeats the driver's text."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from chassis.errors import HanseiError, Internal, NotFound
from libs.storage.database import Database
from libs.storage.engines import create_database_engine, parse_location
from libs.storage.errors import (
    StoreConflict,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UndecodableRow,
    translate_error,
)
from libs.storage.migrations import Migrations
from libs.storage.tests.tables import add_item

STORE = "test store /data/a.db"


class ServerError(Exception):
    """An error of PostgreSQL's driver."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("secret text of the driver")
        self.sqlstate = sqlstate


def from_server(state: str | None, kind: type[DBAPIError] = OperationalError) -> Exception:
    return kind("SELECT secret", {}, ServerError(state))


def from_sqlite(name: str) -> Exception:
    cause = sqlite3.OperationalError("secret text of the driver")
    cause.sqlite_errorname = name
    return OperationalError("SELECT secret", {}, cause)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (from_server("53100"), StoreFull),
        (from_server("25006"), StoreReadOnly),
        (from_server("XX001"), StoreCorrupt),
        (from_server("23505"), StoreConflict),
        (from_server("57P01"), StoreUnavailable),
        (from_server(None), StoreUnavailable),
        (from_server("42P01", ProgrammingError), Internal),
        (from_server("23502", ProgrammingError), Internal),
        (from_sqlite("SQLITE_FULL"), StoreFull),
        (from_sqlite("SQLITE_READONLY_DIRECTORY"), StoreReadOnly),
        (from_sqlite("SQLITE_CANTOPEN"), StoreReadOnly),
        (from_sqlite("SQLITE_CORRUPT_INDEX"), StoreCorrupt),
        (from_sqlite("SQLITE_NOTADB"), StoreCorrupt),
        (from_sqlite("SQLITE_BUSY"), StoreUnavailable),
        (from_sqlite("SQLITE_IOERR_WRITE"), StoreUnavailable),
        (from_sqlite("SQLITE_CONSTRAINT_UNIQUE"), StoreConflict),
        (from_sqlite("SQLITE_ERROR"), Internal),
        (UndecodableRow("a stored Bullet does not parse"), StoreCorrupt),
        (PoolTimeout("secret"), StoreUnavailable),
        (ConnectionRefusedError("secret"), StoreUnavailable),
    ],
)
def test_an_error_of_a_driver_becomes_the_callers_error_and_names_the_store(
    error: Exception, expected: type[HanseiError]
) -> None:
    translated = translate_error(error, STORE)
    assert type(translated) is expected
    assert STORE in str(translated)
    assert "secret" not in str(translated)
    assert translated.__cause__ is error


def test_other_errors_are_returned_as_they_are() -> None:
    for error in (NotFound("not there"), LookupError("a bug"), StoreFull("full")):
        assert translate_error(error, STORE) is error


def test_only_transient_errors_have_a_retry_delay() -> None:
    translated = [translate_error(from_server(state), STORE) for state in ("57P01", "23505", "53100", "25006", "XX001")]
    waits = [error.retry_after for error in translated if isinstance(error, HanseiError)]
    assert waits == [1.0, 0.1, None, None, None]


async def test_an_existing_row_is_a_conflict(database: Database) -> None:
    await database.write(lambda connection: add_item(connection, "a"))
    with pytest.raises(StoreConflict, match="test store"):
        await database.write(lambda connection: add_item(connection, "a"))


async def test_an_invalid_statement_is_an_internal_error_without_the_address_of_the_server(database: Database) -> None:
    with pytest.raises(Internal) as refused:
        await database.read(lambda connection: connection.execute(text("SELECT secret FROM nowhere")))
    store = "test store" if database.is_postgresql else f"test store {database.url.database}"
    assert str(refused.value) == f"the {store} refused a statement"


async def test_a_file_that_is_no_database_is_corrupt_and_left_as_it_is(tmp_path: Path, migrations: Migrations) -> None:
    file = tmp_path / "a.db"
    file.write_bytes(b"something else" * 1000)
    database = Database(str(file), migrations, service="test", store="test store")
    with pytest.raises(StoreCorrupt, match=r"test store .*a\.db is damaged \(not a database\)"):
        await database.open()
    await database.close()
    assert file.read_bytes() == b"something else" * 1000


def test_parameters_of_statements_are_not_in_the_texts_of_errors(tmp_path: Path) -> None:
    engine = create_database_engine(parse_location(str(tmp_path / "a.db")), "test", writes=True)
    with pytest.raises(OperationalError) as caught, engine.begin() as connection:
        connection.execute(text("INSERT INTO nowhere VALUES (:value)"), {"value": "secret"})
    assert "secret" not in str(caught.value)
    engine.dispose()
