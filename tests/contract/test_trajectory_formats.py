"""Contract, code, console and docs name the same formats of trajectories (issue 24, item 1)."""

from __future__ import annotations

import re
from typing import get_args

from hansei.reflector.v1 import reflector_service_pb2 as pb
from services.reflector.adapters.importers.files import FORMATS
from services.reflector.domain.recorded_trajectory import Format
from tests.contract.readmes import ROOT

PREFIX = "TRAJECTORY_FORMAT_"
BY_CONTRACT = {name.removeprefix(PREFIX).lower() for name, number in pb.TrajectoryFormat.items() if number}


def test_each_format_of_the_contract_has_a_reader() -> None:
    assert set(get_args(Format)) == BY_CONTRACT
    assert set(FORMATS) == BY_CONTRACT


def test_the_console_has_a_name_for_each_format() -> None:
    script = (ROOT / "gateway/console/page/js/trajectories.js").read_text(encoding="utf-8")
    assert {name.lower() for name in re.findall(rf"^  {PREFIX}(\w+):", script, re.MULTILINE)} == BY_CONTRACT


def test_the_readme_of_the_reflector_describes_each_format() -> None:
    readme = (ROOT / "services/reflector/README.md").read_text(encoding="utf-8")
    section = readme.partition("## Trajectory files")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == BY_CONTRACT


def test_each_format_has_a_page_and_a_line_in_the_table() -> None:
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/formats").glob("*.md")}
    assert set(pages) == BY_CONTRACT
    assert [name for name, text in pages.items() if f"| format | `{name}` |" not in text] == []
    table = (ROOT / "docs/tasks/formats.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[.*\| `(\w+)` \|", table, re.MULTILINE)) == sorted(BY_CONTRACT)


def test_the_table_says_for_which_formats_programs_write_files_in_the_tests() -> None:
    """A format with a star is named in a test with parameters, such as the three scripted runs, or in its helper."""
    table = (ROOT / "docs/tasks/formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[.*\| `(\w+)` \|(.*)\|$", table, re.MULTILINE)
    files = [file.read_text(encoding="utf-8") for file in (ROOT / "tests/frameworks").glob("test_*.py")]
    tests = [test for text in files for test in text.split("@pytest.mark.parametrize")[1:]]
    written = {name for name in BY_CONTRACT if any(f'"{name}"' in test for test in [*tests, *map(_read_helper, files)])}
    assert {name for name, writers in rows if r"\*" in writers} == written


def _read_helper(text: str) -> str:
    """Return the function of a test file that its parametrized tests share: it reads the file of a run."""
    found = re.search(r"^def (?:read|record|run)\(.*?(?=^(?:@|def |async def ))", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""
