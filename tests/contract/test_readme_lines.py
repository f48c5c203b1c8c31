"""What the READMEs tell users to type works, word for word."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests import systems
from tests.contract.readmes import READMES, ROOT, Example, example_lines, filled, run

BY_README = {readme: list(lines) for readme, lines in itertools.groupby(example_lines(), lambda line: line.readme)}


@pytest.mark.parametrize("readme", sorted(BY_README), ids=lambda path: str(Path(path).relative_to(ROOT)))
def test_grpcurl_lines_answer(system: systems.System, readme: Path) -> None:
    told = ""
    for example in BY_README[readme]:
        told += run(filled(example, told), system.address)


def test_the_root_readme_has_a_line_for_each_service() -> None:
    lines = [line.command for line in example_lines() if line.readme == ROOT / "README.md"]
    for name in systems.SERVICES:
        assert any(f" hansei.{name}.v1." in line for line in lines), name


def test_every_service_has_a_readme() -> None:
    folders = [ROOT / (name if name == "gateway" else f"services/{name}") for name in systems.SERVICES]
    assert {folder / "README.md" for folder in folders} <= set(READMES)


def test_a_line_that_fails_is_noticed(system: systems.System) -> None:
    wrong = Example(ROOT / "README.md", "grpcurl -plaintext localhost:1 hansei.search.v1.SearchService/Nothing")
    with pytest.raises(AssertionError):
        run(wrong, system.address)
