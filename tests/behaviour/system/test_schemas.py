"""Databases of earlier releases: every service migrates its own to the newest schema and keeps the data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Engine,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    inspect,
)
from sqlalchemy.engine.interfaces import ReflectedColumn

from libs.storage.engines import create_database_engine, parse_location
from libs.storage.migrations import Migrations, upgrade
from libs.storage.partitions import list_tables
from tests.support import systems

ROWS = 3
PGVECTOR = Path("services/search/adapters/pgvector/migrations")
"""The tables of this folder exist only on a server with pgvector; the tests of collections migrate it there."""
FOLDERS = sorted(
    folder
    for top in ("services", "gateway")
    for versions in (systems.ROOT / top).rglob("migrations/versions")
    if (folder := versions.parent.relative_to(systems.ROOT)) != PGVECTOR
)

Rows = dict[str, list[dict[str, object]]]


def migrations_in(folder: Path) -> Migrations:
    """Return the migrations of a folder as their service knows them."""
    schema = import_module(".".join((*folder.parent.parts, "schema")))
    return Migrations(systems.ROOT / folder, schema.MIGRATIONS.version_table)


def revisions(folder: Path) -> list[str]:
    """Return the revisions of a folder of migrations, the oldest first."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(migrations_in(folder).alembic_config(connection))
    engine.dispose()
    return [script.revision for script in scripts.walk_revisions()][::-1]


def migrate(engine: Engine, folder: Path, revision: str) -> None:
    """Bring a database to a revision."""
    with engine.begin() as connection:
        command.upgrade(migrations_in(folder).alembic_config(connection), revision)


def fill_tables(engine: Engine) -> Rows:
    """Replace the rows of every table by test rows."""
    tables = _tables(engine)
    with engine.begin() as connection:
        for name in _list_partitioned_by_time(connection):  # the test rows are of 1970
            connection.exec_driver_sql(f"CREATE TABLE {name}_rest PARTITION OF {name} DEFAULT")
        for table in reversed(tables):
            connection.execute(table.delete())
        for table in tables:
            connection.execute(table.insert(), [_row(table, number) for number in range(1, ROWS + 1)])
    return content(engine)


def _list_partitioned_by_time(connection: Connection) -> list[str]:
    if connection.dialect.name != "postgresql":
        return []
    query = "SELECT partrelid::regclass::text FROM pg_partitioned_table WHERE partstrat = 'r'"
    return list(connection.exec_driver_sql(query).scalars())


def content(engine: Engine) -> Rows:
    """Return the rows of every table, by column."""
    tables = _tables(engine)
    with engine.connect() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(table.select().order_by(*table.columns)).mappings()]
            for table in tables
        }


def _tables(engine: Engine) -> list[Table]:
    """All but those of versions, each after those it refers to."""
    found = MetaData()
    with engine.connect() as connection:
        found.reflect(connection, only=list_tables(connection))
    return [table for table in found.sorted_tables if "version_num" not in table.columns]


def _row(table: Table, number: int) -> dict[str, object]:
    def value(column: Column[Any]) -> object:
        kind = column.type
        if isinstance(kind, String):
            return f"値 {number}"[: kind.length]
        if isinstance(kind, LargeBinary):
            return b"\x00\xff%d" % number
        return datetime(2026, 1, number, tzinfo=UTC) if isinstance(kind, DateTime) else kind.python_type(number)

    return {column.name: value(column) for column in table.columns}


def shape(engine: Engine) -> dict[str, object]:
    """Tables with their columns and indexes."""
    with engine.connect() as connection:
        found = inspect(connection)
        return {
            table: (
                [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(table)],
                sorted(str(index["name"]) for index in found.get_indexes(table)),
            )
            for table in list_tables(connection)
        }


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_earlier_schema_becomes_the_newest(create_database: Callable[[], str], folder: Path) -> None:
    with ExitStack() as engines:

        def create_empty_engine() -> Engine:
            engine = create_database_engine(parse_location(create_database()), "test", writes=True)
            engines.callback(engine.dispose)
            return engine

        fresh = create_empty_engine()
        upgrade(fresh, migrations_in(folder))
        for revision in revisions(folder):
            old = create_empty_engine()
            migrate(old, folder, revision)
            before = fill_tables(old)
            upgrade(old, migrations_in(folder))
            assert shape(old) == shape(fresh)
            after = content(old)
            for table, rows in before.items():
                assert len(rows) == ROWS
                assert [{name: row[name] for name in rows[0]} for row in after[table]] == rows


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_migration_removes_nothing_that_older_replicas_use(tmp_path: Path, folder: Path) -> None:
    """Tables and columns stay; new columns are optional when a row is written."""
    engine = create_database_engine(parse_location(str(tmp_path / "old.db")), "test", writes=True)
    previous: dict[str, dict[str, ReflectedColumn]] = {}
    for revision in revisions(folder):
        migrate(engine, folder, revision)
        found = inspect(engine)
        now = {name: {column["name"]: column for column in found.get_columns(name)} for name in found.get_table_names()}
        for table, columns in previous.items():
            for name, column in columns.items():
                assert str(now[table][name]["type"]) == str(column["type"]), (revision, table, name)
                assert now[table][name]["nullable"] or not column["nullable"], (revision, table, name)
            for name, column in now[table].items():
                assert name in columns or column["nullable"] or column["default"], (revision, table, name)
        previous = now
    engine.dispose()


def test_the_schema_of_pgvector_has_no_earlier_release() -> None:
    """A second revision needs the tests above on a server with pgvector."""
    assert revisions(PGVECTOR) == ["0001"]
