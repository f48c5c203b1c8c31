"""Schemas that grow: each service keeps its Alembic migrations in a folder beside its tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, column, inspect, select, table, text

from chassis.errors import FailedPrecondition
from libs.sql.engines import shown

VERSION_COLUMN = "version_num"
"""The one column of a table of versions; Alembic names it so."""


class SchemaNewer(FailedPrecondition):
    """A newer version of the service has migrated this database."""

    reason = "SCHEMA_NEWER"


@dataclass(frozen=True, slots=True)
class Migrations:
    """The migrations in a folder, `versions/<revision>_<what>.py`, and the table that says which was the last.

    Replicas that start together on one server take turns by the advisory lock `lock`, any constant of the service.
    """

    folder: Path
    version_table: str
    lock: int


def newest_in(folder: Path) -> str:
    """The revision of the last migration in a folder: they are numbered in their order."""
    return max(file.stem.partition("_")[0] for file in (folder / "versions").glob("*.py"))


def upgrade(engine: Engine, migrations: Migrations) -> None:
    """Bring a database to the newest schema, in one transaction.

    Raises SchemaNewer and changes nothing when a newer version was here.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": migrations.lock})
        if _revisions(connection, migrations.version_table) != [newest_in(migrations.folder)]:
            _migrate(connection, migrations)


def _revisions(connection: Connection, version_table: str) -> list[str]:
    if not inspect(connection).has_table(version_table):
        return []
    return list(connection.scalars(select(column(VERSION_COLUMN)).select_from(table(version_table))))


def _migrate(connection: Connection, migrations: Migrations) -> None:
    # Alembic takes longer to import than all the rest of a database, and most starts find the newest schema.
    from alembic import command
    from alembic.config import Config
    from alembic.script.revision import ResolutionError
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(migrations.folder))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        if not isinstance(error.__cause__, ResolutionError):
            raise
        raise SchemaNewer(
            f"the schema of {shown(connection.engine.url)} is newer than this version of hansei"
            f" ({error.__cause__.argument}): start the newer version, or put back a backup from before the upgrade"
        ) from error
