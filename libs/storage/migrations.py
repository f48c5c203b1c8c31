"""Bring schemas up to date: each service keeps its Alembic migrations in a folder beside its tables."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, column, inspect, select, table, text

from chassis.errors import FailedPrecondition
from libs.storage.engines import display_name

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_COLUMN = "version_num"
"""The one column of a table of versions; Alembic names it so."""
_ENVIRONMENT = Path(__file__).with_name("migration_environment")


class SchemaNewer(FailedPrecondition):
    """A newer version of the service has migrated this database."""

    reason = "SCHEMA_NEWER"


@dataclass(frozen=True, slots=True)
class Migrations:
    """The migrations `versions/<revision>_<name>.py` of a folder, and the table that holds the last revision applied.

    The table has a name of its own in each service, so that one PostgreSQL database can serve several.
    """

    folder: Path
    version_table: str

    def alembic_config(self, connection: Connection) -> Config:
        """Return the configuration with which Alembic's commands run on a connection."""
        # Alembic takes longer to import than all the rest of a database, and most starts find the newest schema.
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(_ENVIRONMENT))
        config.set_main_option("version_locations", str(self.folder / "versions"))
        config.set_main_option("path_separator", "os")
        config.attributes |= {"connection": connection, "version_table": self.version_table}
        return config


def find_newest_revision(folder: Path) -> str:
    """Return the revision of the last migration in a folder: they are numbered in their order."""
    return max(file.stem.partition("_")[0] for file in (folder / "versions").glob("*.py"))


def upgrade(engine: Engine, migrations: Migrations) -> None:
    """Bring a database to the newest schema, in one transaction.

    Raises SchemaNewer and changes nothing when a newer version has migrated the database.
    """
    with engine.begin() as connection:
        take_turn(connection, migrations.version_table)  # replicas may start together
        if _read_applied_revisions(connection, migrations.version_table) != [find_newest_revision(migrations.folder)]:
            _apply_migrations(connection, migrations)


def take_turn(connection: Connection, name: str) -> None:
    """Wait until no other transaction holds the turn of this name, and hold it until the own transaction ends.

    SQLite has one writer, so there is nothing to wait for.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": zlib.crc32(name.encode())})


def _read_applied_revisions(connection: Connection, version_table: str) -> list[str]:
    if not inspect(connection).has_table(version_table):
        return []
    return list(connection.scalars(select(column(VERSION_COLUMN)).select_from(table(version_table))))


def _apply_migrations(connection: Connection, migrations: Migrations) -> None:
    from alembic import command
    from alembic.script.revision import ResolutionError
    from alembic.util import CommandError

    try:
        command.upgrade(migrations.alembic_config(connection), "head")
    except CommandError as error:
        if not isinstance(error.__cause__, ResolutionError):
            raise
        raise SchemaNewer(
            f"the schema of {display_name(connection.engine.url)} is newer than this version of hansei"
            f" ({error.__cause__.argument}): start the newer version, or restore a backup from before the upgrade"
        ) from error
