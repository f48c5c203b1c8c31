"""Databases of earlier releases: every service brings its own to the newest schema and keeps what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Column, DateTime, Engine, LargeBinary, MetaData, String, Table, inspect
from sqlalchemy.engine.interfaces import ReflectedColumn

from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from libs.sql.engines import engine_for, url_of
from libs.sql.migrations import Migrations, upgrade
from tests import systems
from tests.behaviour.planner_service import ASK, answer, events, kinds, running

LOCK = 1
ROWS = 3
FOLDERS = sorted(
    each.parent.relative_to(systems.ROOT)
    for top in ("services", "gateway")
    for each in (systems.ROOT / top).rglob("migrations/env.py")
)


Rows = dict[str, list[dict[str, object]]]


def known(folder: Path) -> Migrations:
    """The migrations of a folder as their service knows them."""
    schema = import_module(".".join((*folder.parent.parts, "schema")))
    return Migrations(systems.ROOT / folder, schema.VERSION_TABLE, LOCK)


def revisions(folder: Path) -> list[str]:
    """Of a folder of migrations, the oldest first."""
    config = Config()
    config.set_main_option("script_location", str(systems.ROOT / folder))
    return [each.revision for each in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def migrated(engine: Engine, folder: Path, to: str, move: Callable[[Config, str], None] = command.upgrade) -> None:
    """Bring a database to a revision, by default a newer one."""
    config = Config()
    config.set_main_option("script_location", str(systems.ROOT / folder))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        move(config, to)


def moved(engine: Engine, folder: Path, to: str) -> None:
    """Bring a database to a revision, newer or older."""
    is_older = inspect(engine).get_table_names() and to != revisions(folder)[-1]
    migrated(engine, folder, to, command.downgrade if is_older else command.upgrade)


def filled(engine: Engine) -> Rows:
    """Put rows into every table, whatever it is for, instead of those that are there."""
    tables = _tables(engine)
    with engine.begin() as connection:
        for table in reversed(tables):
            connection.execute(table.delete())
        for table in tables:
            connection.execute(table.insert(), [_row(table, number) for number in range(1, ROWS + 1)])
    return content(engine)


def content(engine: Engine) -> Rows:
    """What is in every table, by column."""
    tables = _tables(engine)
    with engine.connect() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(table.select().order_by(*table.columns)).mappings()]
            for table in tables
        }


def _tables(engine: Engine) -> list[Table]:
    """All but those of versions, each after those it refers to."""
    found = MetaData()
    found.reflect(engine)
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
    found = inspect(engine)
    return {
        table: (
            [(each["name"], str(each["type"]), each["nullable"]) for each in found.get_columns(table)],
            sorted(str(each["name"]) for each in found.get_indexes(table)),
        )
        for table in found.get_table_names()
    }


@pytest.fixture
def two_databases(new_place: Callable[[], str]) -> Iterator[tuple[Engine, Engine]]:
    old, fresh = (engine_for(url_of(new_place()), "test", writes=True) for _ in range(2))
    yield old, fresh
    old.dispose()
    fresh.dispose()


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_earlier_schema_becomes_the_newest(two_databases: tuple[Engine, Engine], folder: Path) -> None:
    old, fresh = two_databases
    upgrade(fresh, known(folder))
    for revision in revisions(folder):
        moved(old, folder, revision)
        before = filled(old)
        upgrade(old, known(folder))
        assert shape(old) == shape(fresh)
        after = content(old)
        for table, rows in before.items():
            assert len(rows) == ROWS
            assert [{name: row[name] for name in rows[0]} for row in after[table]] == rows


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_migration_takes_nothing_from_replicas_that_do_not_know_it(tmp_path: Path, folder: Path) -> None:
    """Tables stay, and columns; what is new may be left out when a row is written."""
    engine = engine_for(url_of(str(tmp_path / "old.db")), "test", writes=True)
    known: dict[str, dict[str, ReflectedColumn]] = {}
    for revision in revisions(folder):
        migrated(engine, folder, revision)
        found = inspect(engine)
        now = {name: {each["name"]: each for each in found.get_columns(name)} for name in found.get_table_names()}
        for table, columns in known.items():
            for name, column in columns.items():
                assert str(now[table][name]["type"]) == str(column["type"]), (revision, table, name)
                assert now[table][name]["nullable"] or not column["nullable"], (revision, table, name)
            for name, column in now[table].items():
                assert name in columns or column["nullable"] or column["default"], (revision, table, name)
        known = now
    engine.dispose()


async def test_a_plan_that_waited_in_an_earlier_schema_is_answered(tmp_path: Path) -> None:
    folder = Path("services/planner/adapters/sql/migrations")
    async with running(tmp_path) as stub:
        (*_, question) = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ASK)))
    engine = engine_for(url_of(str(tmp_path / "planner.db")), "test", writes=True)
    moved(engine, folder, revisions(folder)[0])
    assert "planner_audits" not in inspect(engine).get_table_names()
    engine.dispose()
    async with running(tmp_path) as stub:
        found = await events(stub.ResumePlan(answer(question, user_input="青")))
    assert kinds(found) == ["intervention_answered", "finished"]
    assert found[-1].finished.overall_status == pb.EXECUTION_STATUS_SUCCESS
