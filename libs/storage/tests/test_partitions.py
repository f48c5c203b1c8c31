"""A table that becomes partitions keeps its rows, defaults, constraints and indexes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from libs.storage.engines import create_database_engine, parse_location
from libs.storage.partitions import PARTITIONS, list_tables, partition_by_hash

ROWS = 200
INSERT = text("INSERT INTO entry (dataset, name, is_open) VALUES (:dataset, :name, :is_open)")


@pytest.fixture
def engine(database_location: str) -> Iterator[Engine]:
    """Yield a database with a table of numbered rows."""
    engine = create_database_engine(parse_location(database_location), "test", writes=True)
    is_postgresql = engine.dialect.name == "postgresql"
    number = "BIGSERIAL" if is_postgresql else "INTEGER"
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE TABLE entry (number {number} PRIMARY KEY, dataset TEXT NOT NULL, name TEXT NOT NULL,"
            " is_open BOOLEAN NOT NULL, size INTEGER NOT NULL DEFAULT 7,"
            " CONSTRAINT entry_name UNIQUE (dataset, name))"
        )
        connection.exec_driver_sql("CREATE UNIQUE INDEX entry_open ON entry (dataset) WHERE is_open")
        connection.exec_driver_sql("CREATE INDEX entry_size ON entry (dataset, size)")
        rows = [{"dataset": f"d{n % 20}", "name": f"n{n}", "is_open": n < 20} for n in range(ROWS)]
        connection.execute(INSERT, rows)
    yield engine
    engine.dispose()


def read_rows(connection: Connection) -> list[tuple[object, ...]]:
    return [tuple(row) for row in connection.execute(text("SELECT * FROM entry ORDER BY number"))]


def test_rows_and_rules_of_a_table_stay_when_it_is_partitioned(engine: Engine) -> None:
    with engine.begin() as connection:
        before, indexes = read_rows(connection), inspect(connection).get_indexes("entry")
        partition_by_hash(connection, "entry", "dataset", primary_key="dataset, number")
        assert read_rows(connection) == before
        assert len(before) == ROWS
        assert list_tables(connection) == ["entry"]
    with engine.begin() as connection:
        after = inspect(connection)
        assert [index["name"] for index in after.get_indexes("entry")] == [index["name"] for index in indexes]
        is_postgresql = engine.dialect.name == "postgresql"
        key = ["dataset", "number"] if is_postgresql else ["number"]
        assert after.get_pk_constraint("entry")["constrained_columns"] == key
        assert len(after.get_table_names()) == 1 + PARTITIONS * is_postgresql
        if is_postgresql:
            query = "SELECT count(DISTINCT tableoid), min(tableoid) FROM entry GROUP BY dataset"
            found = connection.execute(text(query)).all()
            assert {row[0] for row in found} == {1}
            assert len({row[1] for row in found}) > PARTITIONS // 4
        connection.execute(INSERT, {"dataset": "new", "name": "n", "is_open": True})
        assert read_rows(connection)[-1] == (ROWS + 1, "new", "n", True, 7)
    for repeated in ({"dataset": "d0", "name": "n0", "is_open": False}, {"dataset": "d0", "name": "", "is_open": True}):
        with pytest.raises(IntegrityError), engine.begin() as connection:
            connection.execute(INSERT, repeated)
