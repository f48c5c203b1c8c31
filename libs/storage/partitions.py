"""Partition tables of PostgreSQL by a hash; SQLite has no partitions, so its tables stay whole."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

PARTITIONS = 16
"""Partitions of a table.

More of them are vacuumed in less time each, but each has its indexes, and every connection stores the description of
those that it used. A statement that names no partition locks all: with three indexes a table these are 68 locks of
the 6,400 that a server has by default.
"""

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


def partition_by_hash(connection: Connection, table: str, column: str, primary_key: str = "") -> None:
    """Replace a table of PostgreSQL by one of the same name, with its rows, in partitions by the hash of a column.

    Defaults, sequences, constraints and indexes stay. Unique constraints and indexes must contain the column;
    `primary_key` are the columns of a primary key that replaces one without it.
    """
    if connection.dialect.name != "postgresql":
        return
    constraints = connection.execute(_CONSTRAINTS, {"table": table}).all()
    indexes = connection.scalars(_INDEXES, {"table": table}).all()
    sequences = [row for row in connection.execute(_SEQUENCES, {"table": table}) if row[0]]
    whole = f"{table}_whole"
    statements = [
        f"ALTER TABLE {table} RENAME TO {whole}",
        f"CREATE TABLE {table} (LIKE {whole} INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY HASH ({column})",
        *(
            f"CREATE TABLE {table}_{number} PARTITION OF {table}"
            f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
            for number in range(PARTITIONS)
        ),
        f"INSERT INTO {table} SELECT * FROM {whole}",  # noqa: S608  the names are those of a migration
        *(f"ALTER SEQUENCE {sequence} OWNED BY {table}.{owner}" for sequence, owner in sequences),
        f"DROP TABLE {whole}",  # frees the names of its constraints and indexes
    ]
    for name, is_primary, definition in constraints:
        kept = f"PRIMARY KEY ({primary_key})" if is_primary and primary_key else definition
        statements.append(f"ALTER TABLE {table} ADD CONSTRAINT {name} {kept}")
    for statement in (*statements, *indexes):
        connection.exec_driver_sql(statement)


def list_tables(connection: Connection) -> list[str]:
    """Return the names of the tables of a database, without partitions."""
    names = inspect(connection).get_table_names()
    partitions = set(connection.scalars(_PARTITIONS)) if connection.dialect.name == "postgresql" else set()
    return [name for name in names if name not in partitions]
