"""Partition tables of PostgreSQL, by a hash or by time; SQLite has no partitions, so its tables stay whole."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, Table, delete, inspect, text

from libs.storage.database import Database
from libs.storage.migrations import take_turn
from libs.storage.timestamps import to_microseconds

PARTITIONS = 16
"""Partitions of a table by hash.

More of them are vacuumed in less time each, but each has its indexes, and every connection stores the description of
those that it used. A statement that names no partition locks all: with three indexes a table these are 68 locks of
the 6,400 that a server has by default.
"""
PERIOD = timedelta(days=7)
"""Time of a partition. A retention of thirty days then takes six partitions, which a read without a time touches."""

_CONSTRAINTS = text(
    "SELECT conname, contype = 'p', pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE conrelid = to_regclass(:table) AND contype IN ('p', 'u') ORDER BY conname"
)
_INDEXES = text(
    "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = to_regclass(:table)"
    " AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid) ORDER BY indexrelid"
)
_SEQUENCES = text(
    "SELECT pg_get_serial_sequence(:table, attname), attname FROM pg_attribute"
    " WHERE attrelid = to_regclass(:table) AND attnum > 0 AND NOT attisdropped"
)
_PARTITIONS = text("SELECT relname FROM pg_class WHERE relispartition AND pg_table_is_visible(oid)")
_PARTITIONS_OF = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(:table)")
_PERIOD_MICROSECONDS = PERIOD // timedelta(microseconds=1)


def partition_by_hash(connection: Connection, table: str, column: str, primary_key: str = "") -> None:
    """Replace a table of PostgreSQL by one of the same name, with its rows, in partitions by the hash of a column.

    Defaults, sequences, constraints and indexes stay. Unique constraints and indexes must contain the column;
    `primary_key` are the columns of a primary key that replaces one without it.
    """
    if connection.dialect.name == "postgresql":
        bounds = {number: f"WITH (MODULUS {PARTITIONS}, REMAINDER {number})" for number in range(PARTITIONS)}
        _replace_table(connection, table, f"HASH ({column})", bounds, primary_key)


def partition_by_time(connection: Connection, table: str, column: str, primary_key: str) -> None:
    """Replace a table of PostgreSQL by one of the same name, with its rows, in partitions by a `Timestamp` column.

    `TimePartitions` makes the partitions of later rows.
    """
    if connection.dialect.name == "postgresql":
        query = f"SELECT min({column}), max({column}) FROM {table}"  # noqa: S608  the names are those of a migration
        oldest, newest = connection.exec_driver_sql(query).one()
        periods = [] if oldest is None else range(_find_period(oldest), _find_period(newest) + 1)
        bounds = {period: _build_bounds(period) for period in periods}
        _replace_table(connection, table, f"RANGE ({column})", bounds, primary_key)


class TimePartitions:
    """Tables whose rows are dropped by the time in their column `created_at`.

    PostgreSQL has a partition for each `PERIOD` and drops whole partitions; SQLite deletes rows.
    """

    def __init__(self, database: Database, *tables: Table) -> None:
        self._database = database
        self._tables = tables
        self._prepared: set[int] = set()

    async def prepare(self, now: datetime) -> None:
        """Create the partitions of rows of this time unless they are there."""
        period = _find_period(to_microseconds(now))
        if self._database.is_postgresql and period not in self._prepared:
            await self._database.write(lambda connection: self._create(connection, period))
            self._prepared.add(period)

    async def drop_older(self, limit: datetime) -> None:
        """Drop rows of before a time; on PostgreSQL they stay until all rows of their partition are older."""
        for table in self._tables:  # one transaction each: a call that uses several of them must not wait in a circle
            await self._database.write(partial(_drop_older, table=table, limit=limit))

    def _create(self, connection: Connection, period: int) -> None:
        for table in self._tables:
            name = f"{table.name}_{period}"
            take_turn(connection, name)
            if connection.scalar(text("SELECT to_regclass(:name) IS NULL"), {"name": name}):
                connection.exec_driver_sql(_define_partition(table.name, period, _build_bounds(period)))


def list_tables(connection: Connection) -> list[str]:
    """Return the names of the tables of a database, without partitions."""
    names = inspect(connection).get_table_names()
    partitions = set(connection.scalars(_PARTITIONS)) if connection.dialect.name == "postgresql" else set()
    return [name for name in names if name not in partitions]


def _drop_older(connection: Connection, table: Table, limit: datetime) -> None:
    if connection.dialect.name != "postgresql":
        connection.execute(delete(table).where(table.c.created_at < limit))
        return
    oldest = _find_period(to_microseconds(limit))
    for name in connection.scalars(_PARTITIONS_OF, {"table": table.name}).all():
        if int(name.rpartition("_")[2]) < oldest:
            connection.exec_driver_sql(f"DROP TABLE {name}")


def _replace_table(
    connection: Connection, table: str, partitioned_by: str, bounds: Mapping[int, str], primary_key: str
) -> None:
    constraints = connection.execute(_CONSTRAINTS, {"table": table}).all()
    indexes = connection.scalars(_INDEXES, {"table": table}).all()
    sequences = [row for row in connection.execute(_SEQUENCES, {"table": table}) if row[0]]
    whole = f"{table}_whole"
    statements = [
        f"ALTER TABLE {table} RENAME TO {whole}",
        f"CREATE TABLE {table} (LIKE {whole} INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY {partitioned_by}",
        *(_define_partition(table, number, bound) for number, bound in bounds.items()),
        f"INSERT INTO {table} SELECT * FROM {whole}",  # noqa: S608  the names are those of a migration
        *(f"ALTER SEQUENCE {sequence} OWNED BY {table}.{owner}" for sequence, owner in sequences),
        f"DROP TABLE {whole}",  # frees the names of its constraints and indexes
    ]
    for name, is_primary, definition in constraints:
        rule = f"PRIMARY KEY ({primary_key})" if is_primary and primary_key else definition
        statements.append(f"ALTER TABLE {table} ADD CONSTRAINT {name} {rule}")
    for statement in (*statements, *indexes):
        connection.exec_driver_sql(statement)


def _define_partition(table: str, number: int, bounds: str) -> str:
    return f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES {bounds}"


def _build_bounds(period: int) -> str:
    return f"FROM ({period * _PERIOD_MICROSECONDS}) TO ({(period + 1) * _PERIOD_MICROSECONDS})"


def _find_period(microseconds: int) -> int:
    return microseconds // _PERIOD_MICROSECONDS
