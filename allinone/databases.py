"""Read-only inspection of the databases of the settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, Text, column, create_engine, inspect, select, table
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from chassis.errors import Unavailable, shorten
from chassis.settings import ServiceSettings
from libs.storage.engines import create_database_engine, display_name, is_sqlite, parse_location
from libs.storage.migrations import VERSION_COLUMN, find_newest_revision
from libs.storage.partitions import list_tables
from libs.storage.startup import report_setting

APPLICATION = "hansei doctor"


def connect(database: str, variable: str) -> str:
    """Connect to a database server once and return its address without the password.

    Raises BadSetting, which names `variable`, for an address that cannot be read, and Unavailable when it refuses.
    """
    with report_setting(variable):
        url = parse_location(database)
        engine = create_database_engine(url, APPLICATION, writes=False)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
    except SQLAlchemyError as error:
        reason = shorten(str(getattr(error, "orig", None) or error).partition("\n")[0])
        raise Unavailable(
            f"{display_name(url)} refused the connection: {reason}", reason="DATABASE_UNAVAILABLE"
        ) from error
    finally:
        engine.dispose()
    return display_name(url)


def describe_schema(settings: ServiceSettings) -> dict[str, Any] | None:
    """Return the database, the migrations applied to it, and the newest migrations of this installation.

    Return None for a service without a database. Raises the errors of the driver.
    """
    database = find_database_url(settings)
    if database is None:
        return None
    return {**_read_migration_versions(parse_location(database)), "newest_here": _find_newest_revisions(type(settings))}


def find_database_url(settings: ServiceSettings) -> str | None:
    """Return the database URL of the settings; the curator derives its `database_url` from two settings."""
    if hasattr(settings, "database_url"):
        return str(settings.database_url)
    names = [name for name in type(settings).model_fields if name.endswith("_database_url")]
    return str(getattr(settings, names[-1])) if names else None


def _read_migration_versions(url: URL) -> dict[str, Any]:
    about: dict[str, Any] = {"database": display_name(url)}
    if not is_sqlite(url):
        return about | {"versions": _read_version_tables(create_database_engine(url, APPLICATION, writes=False))}
    file = Path(url.database or "")
    if not file.is_file():
        return about | {"versions": {}, "there": False}
    # The engines of services create files; this one is read-only.
    address = url.set(database=f"file:{quote(str(file.absolute()))}", query={"mode": "ro", "uri": "true"})
    return about | {"versions": _read_version_tables(create_engine(address)), "bytes": file.stat().st_size}


def _read_version_tables(engine: Engine) -> dict[str, list[str]]:
    """Return the versions in each version table; these tables have one column."""
    try:
        with engine.connect() as connection:
            inspector = inspect(connection)
            names = [
                name
                for name in list_tables(connection)
                if [item["name"] for item in inspector.get_columns(name)] == [VERSION_COLUMN]
            ]
            versions = {name: select(column(VERSION_COLUMN, Text)).select_from(table(name)) for name in names}
            return {name: list(connection.scalars(query)) for name, query in versions.items()}
    finally:
        engine.dispose()


def _find_newest_revisions(settings_class: type[ServiceSettings]) -> dict[str, str]:
    """Return the newest migration in each migration folder of a service."""
    service = Path(str(sys.modules[settings_class.__module__].__file__)).parent
    folders = [environment.parent for environment in sorted(service.rglob("migrations/versions"))]
    return {str(folder.relative_to(service)): find_newest_revision(folder) for folder in folders}
