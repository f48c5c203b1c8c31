"""The migrations make the tables of the schema."""

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from services.planner.adapters.sql import schema
from services.planner.adapters.sql.repository import SqlExecutionStore


def differences(path: Path) -> list[object]:
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        options = {"compare_type": True, "version_table": schema.MIGRATIONS.version_table}
        found = compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata)
    engine.dispose()
    return list(found)


async def test_migrations_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    for _ in range(2):  # the second start finds nothing to do
        store = SqlExecutionStore(str(tmp_path / "new.db"))
        await store.database.open()
        await store.database.close()
    assert differences(tmp_path / "new.db") == []
