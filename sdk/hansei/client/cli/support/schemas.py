"""The databases that the settings name, and which schema each is at. Nothing is made, changed or migrated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hansei.client.cli.checks import loaded
from hansei.client.cli.support.archive import LeftOut, Part
from hansei.client.server import server


def schemas() -> Iterator[Part | LeftOut]:
    """Of each database: where it is, what its tables of versions say, and the newest version known here."""
    commands = server()
    found: dict[str, Any] = {}
    for service, settings_class in commands.settings_classes().items():
        settings = loaded(settings_class)
        if isinstance(settings, str):
            yield LeftOut(f"schemas of the {service}", "its settings cannot be read: see findings.json")
            continue
        try:
            found[service] = commands.database_schema(settings)
        except Exception as error:
            # Drivers have errors of their own, and a database is looked at because something is wrong with it.
            yield LeftOut(f"schemas of the {service}", f"its database cannot be read: {type(error).__name__}")
    found = {service: schema for service, schema in found.items() if schema is not None}
    yield Part("schemas.json", "the databases of this environment's settings, and the versions of their schemas", found)
