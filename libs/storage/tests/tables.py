"""The tables of these tests, and the migration that makes them."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select

from libs.storage.idempotency import IdempotencyTable
from libs.storage.leases import Leases, make_lease_columns
from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

metadata = MetaData()
item = Table("item", metadata, Column("name", Text, primary_key=True), Column("value", Integer))
moment = Table("moment", metadata, Column("number", Integer, primary_key=True), Column("at", Timestamp))
worker = Table("worker", metadata, Column("name", Text, primary_key=True), Column("state", Text), *make_lease_columns())
requests = IdempotencyTable(metadata, "test_request")
leases = Leases(worker, "name")

_MIGRATION = """
from alembic import op
from libs.storage.tests.tables import metadata
revision, down_revision = "0001", None
def upgrade():
    metadata.create_all(op.get_bind())
"""


def migrations_of(folder: Path, version_table: str = "test_schema_version") -> Migrations:
    """Write the migration into a folder."""
    (folder / "versions").mkdir(parents=True)
    (folder / "versions" / "0001_tables.py").write_text(_MIGRATION)
    return Migrations(folder, version_table)


def add_item(connection: Connection, name: str, value: int = 1) -> int:
    """Insert an item and return its value."""
    connection.execute(insert(item), {"name": name, "value": value})
    return value


def item_names(connection: Connection) -> list[str]:
    """Return the names of all items in order."""
    return sorted(connection.execute(select(item.c.name)).scalars())
