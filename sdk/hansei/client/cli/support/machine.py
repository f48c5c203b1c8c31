"""What runs here: versions, and the settings that a hansei started here would have."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from chassis.logging import REDACTED
from chassis.settings import PREFIX, ServiceSettings, SettingRow, settings_table
from hansei.client.cli.support.archive import LeftOut, Part
from hansei.client.server import ServerNotInstalledError, server

OURS = (PREFIX, "LLM_", "EMBEDDING_", "OTEL_")
"""How the names of variables begin that hansei may be meant by."""


def versions() -> Iterator[Part]:
    """Of hansei, Python, the platform, and of every package that is installed beside it."""
    installed = {each.name: each.version for each in metadata.distributions()}
    found = {
        "hansei": installed.get("hansei", "runs from its source"),
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": dict(sorted(installed.items(), key=lambda item: item[0].lower())),
    }
    yield Part("versions.json", "hansei, Python, the platform, and the packages that are installed", found)


def settings() -> Iterator[Part | LeftOut]:
    """The settings of each service, each with the variable it comes from."""
    found: dict[str, Any] = {}
    known: set[str] = set()
    for service, settings_class in server().settings_classes().items():
        rows = settings_table(settings_class)
        known.update(variable for row in rows for variable in row.variables)
        found[service] = {row.variables[-1]: _setting(row) for row in rows}
    others = sorted(name for name in os.environ if name.startswith(OURS) and name not in known)
    document = {"settings": found, "other_variables_that_are_set": others}
    yield Part("settings.json", "the settings here and where each comes from; a server may have others", document)


def secret_variables() -> frozenset[str]:
    """The variables of settings that are declared secret, of all services that are installed."""
    try:
        classes = server().settings_classes().values()
    except ServerNotInstalledError:
        classes = (ServiceSettings,)
    return frozenset(
        variable for each in classes for row in settings_table(each) if row.secret for variable in row.variables
    )


def _setting(row: SettingRow) -> dict[str, object]:
    value, source = row.current_value()
    empty = [each for each in row.variables if os.environ.get(each) == ""]
    shown: dict[str, object] = {"value": REDACTED if row.secret and value else value, "from": source}
    return shown | ({"set_to_nothing": empty} if empty else {})
