"""The settings tables of READMEs and docs are those of the code; run this module (`python -m`) to mend them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from chassis.settings import ServiceSettings, Settings, list_settings
from tests.contract.readmes import PAGES, ROOT

_TABLE = re.compile(r"<!-- settings: ([\w.]+) -->\n(.*?)<!-- end -->", re.DOTALL)
WITH_TABLES = [readme for readme in PAGES if _TABLE.search(readme.read_text(encoding="utf-8"))]


def expected_table(name: str) -> str:
    """Return the table of a settings class, without the settings that every service has."""
    module, _, class_name = name.rpartition(".")
    settings: type[Settings] = getattr(importlib.import_module(module), class_name)
    shared = set() if settings is ServiceSettings else unchanged_settings(settings)
    lines = [
        f"| {', '.join(f'`{variable}`' for variable in row.variables)} "
        f"| {f'`{row.default}`' if row.default else ''} | {row.doc} |"
        for row in list_settings(settings)
        if row.name not in shared
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *lines]) + "\n"


def unchanged_settings(settings: type[Settings]) -> set[str]:
    own = {row.name: row for row in list_settings(settings)}
    return {row.name for row in list_settings(ServiceSettings) if own.get(row.name) == row}


@pytest.mark.parametrize("readme", WITH_TABLES, ids=lambda path: str(Path(path).relative_to(ROOT)))
def test_tables_are_those_of_the_code(readme: Path) -> None:
    for name, table in _TABLE.findall(readme.read_text(encoding="utf-8")):
        assert table == expected_table(name), f"{name}: run `python -m tests.contract.test_settings_tables`"


def test_every_variable_is_read_under_hansei_first() -> None:
    for readme in WITH_TABLES:
        for name, _ in _TABLE.findall(readme.read_text(encoding="utf-8")):
            module, _, class_name = name.rpartition(".")
            settings = getattr(importlib.import_module(module), class_name)
            for row in list_settings(settings):
                assert row.variables[0].startswith("HANSEI_"), f"{name}.{row.name}"


if __name__ == "__main__":
    for path in WITH_TABLES:
        text = path.read_text(encoding="utf-8")
        path.write_text(
            _TABLE.sub(lambda m: f"<!-- settings: {m[1]} -->\n{expected_table(m[1])}<!-- end -->", text),
            encoding="utf-8",
        )
