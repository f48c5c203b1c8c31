"""Collect the versions, the settings and the database schemas of this machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from chassis.secrets import REDACTED
from chassis.settings import PREFIX, ServiceSettings, SettingRow, list_settings
from hansei.client.cli.checks import load_settings
from hansei.client.cli.support.archive import BundlePart, OmittedPart
from hansei.client.server import ServerNotInstalledError, load_server

VARIABLE_PREFIXES = (PREFIX, "LLM_", "EMBEDDING_", "OTEL_")
"""The prefixes of variables that a user may have set for hansei."""


def collect_versions() -> Iterator[BundlePart]:
    """Yield the versions of hansei, Python, the platform and all installed packages."""
    # Each look at a name or a version parses the whole file, which has the README of the package.
    documents = [distribution.metadata for distribution in metadata.distributions()]
    installed = {document["Name"]: document["Version"] for document in documents}
    versions = {
        "hansei": installed.get("hansei", "runs from its source"),
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": dict(sorted(installed.items(), key=lambda item: item[0].lower())),
    }
    yield BundlePart("versions.json", "hansei, Python, the platform, and the installed packages", versions)


def collect_settings() -> Iterator[BundlePart | OmittedPart]:
    """Yield the settings of each service, each with the variable it comes from."""
    settings: dict[str, Any] = {}
    known_variables: set[str] = set()
    for service, settings_class in load_server().load_settings_classes().items():
        rows = list_settings(settings_class)
        known_variables.update(variable for row in rows for variable in row.variables)
        settings[service] = {row.variables[-1]: _describe_setting(row) for row in rows}
    others = {name for name in os.environ if name.startswith(VARIABLE_PREFIXES)} - known_variables
    document = {"settings": settings, "other_variables_that_are_set": sorted(others)}
    yield BundlePart("settings.json", "the settings here and their variables; a server may have others", document)


def collect_schemas() -> Iterator[BundlePart | OmittedPart]:
    """Yield the versions of the database schemas, without creating, changing or migrating anything."""
    commands = load_server()
    schemas: dict[str, Any] = {}
    for service, settings_class in commands.load_settings_classes().items():
        settings = load_settings(settings_class)
        if isinstance(settings, str):
            yield OmittedPart(f"schemas of the {service}", "its settings cannot be read: see findings.json")
            continue
        try:
            schema = commands.describe_database_schema(settings)
        except Exception as error:  # drivers raise errors of their own
            yield OmittedPart(f"schemas of the {service}", f"its database cannot be read: {type(error).__name__}")
        else:
            if schema is not None:
                schemas[service] = schema
    yield BundlePart("schemas.json", "the databases of the settings here, and the versions of their schemas", schemas)


def list_secret_variables() -> frozenset[str]:
    """Return the variables of all secret settings of the installed services."""
    try:
        classes = load_server().load_settings_classes().values()
    except ServerNotInstalledError:
        classes = (ServiceSettings,)
    rows = (row for settings_class in classes for row in list_settings(settings_class) if row.secret)
    return frozenset(variable for row in rows for variable in row.variables)


def _describe_setting(row: SettingRow) -> dict[str, object]:
    value, source = row.read_value()
    empty = [name for name in row.variables if os.environ.get(name) == ""]
    description: dict[str, object] = {"value": REDACTED if row.secret and value else value, "from": source}
    return description | ({"set_to_nothing": empty} if empty else {})
