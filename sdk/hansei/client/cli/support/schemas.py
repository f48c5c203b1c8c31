"""The databases that the settings name, and which schema each is at. Nothing is made, changed or migrated."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from chassis.settings import ServiceSettings
from hansei.client.cli.checks import SETTINGS, loaded
from hansei.client.cli.support.archive import LeftOut, Part
from hansei.client.cli.support.machine import settings_classes

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL


def schemas() -> Iterator[Part | LeftOut]:
    """Of each database: where it is, what its tables of versions say, and the newest version known here."""
    found: dict[str, Any] = {}
    for service, settings_class in settings_classes():
        if isinstance(settings_class, LeftOut):
            continue
        settings = loaded(settings_class)
        if isinstance(settings, str):
            yield LeftOut(f"schemas of the {service}", "its settings cannot be read: see findings.json")
            continue
        for place in _places(settings):
            try:
                found[service] = {**_versions(place), "newest_here": _newest(service)}
            except Exception as error:
                # Drivers have errors of their own, and a database is looked at because something is wrong with it.
                yield LeftOut(f"schemas of the {service}", f"its database cannot be read: {type(error).__name__}")
    yield Part("schemas.json", "the databases of this environment's settings, and the versions of their schemas", found)


def _places(settings: ServiceSettings) -> Iterator[str]:
    """The databases of a service: the curator makes the place of its own out of two settings."""
    if hasattr(settings, "database_url"):
        yield str(settings.database_url)
    yield from (str(getattr(settings, name)) for name in type(settings).model_fields if name.endswith("_db"))


def _versions(place: str) -> dict[str, Any]:
    from libs.sql.engines import engine_for, is_sqlite, shown, url_of

    url = url_of(place)
    about: dict[str, Any] = {"database": shown(url)}
    if not is_sqlite(url):
        return about | {"versions": _tables(engine_for(url, "hansei doctor", writes=False))}
    file = Path(url.database or "")
    if not file.is_file():
        return about | {"versions": {}, "there": False}
    return about | {"versions": _tables(_reader(url)), "bytes": file.stat().st_size}


def _reader(url: URL) -> Engine:
    """An engine that cannot write, unlike those of services, which make the file and turn its log on."""
    from sqlalchemy import create_engine

    uri = f"file:{quote(str(Path(url.database or '').absolute()))}"
    return create_engine(url.set(database=uri, query={"mode": "ro", "uri": "true"}))


def _tables(engine: Engine) -> dict[str, list[str]]:
    """What each table of versions holds; Alembic's have one column."""
    from sqlalchemy import Text, column, inspect, select, table

    from libs.sql.migrations import VERSION_COLUMN

    try:
        inspector = inspect(engine)
        names = [
            name
            for name in inspector.get_table_names()
            if [each["name"] for each in inspector.get_columns(name)] == [VERSION_COLUMN]
        ]
        versions = {name: select(column(VERSION_COLUMN, Text)).select_from(table(name)) for name in names}
        with engine.connect() as connection:
            return {name: list(connection.scalars(asked)) for name, asked in versions.items()}
    finally:
        engine.dispose()


def _newest(service: str) -> dict[str, str]:
    """The last migration in each folder of migrations of a service."""
    from libs.sql.migrations import newest_in

    room = Path(str(import_module(SETTINGS[service].rpartition(".")[0]).__file__)).parent
    folders = [place.parent for place in sorted(room.rglob("migrations/env.py"))]
    return {str(folder.relative_to(room)): newest_in(folder) for folder in folders}
