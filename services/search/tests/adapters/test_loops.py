"""A loop is compiled anew when what is compiled into it has changed, wherever that stands."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest

from services.search.adapters import loops, reading_loops, writing_loops


@pytest.mark.parametrize("module", [reading_loops, writing_loops], ids=lambda module: module.__name__)
def test_every_module_whose_numbers_are_compiled_in_counts(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    ours = {name for name in imported if name and name.startswith("services.")} - {loops.__name__}
    assert ours <= {each.__name__ for each in loops.COMPILED_IN}


def test_the_digest_changes_with_each_of_them(tmp_path: Path) -> None:
    modules = [ModuleType("one"), ModuleType("two")]
    for module in modules:
        module.__file__ = str(tmp_path / module.__name__)
        Path(module.__file__).write_text("SIZE = 1")
    seen = {loops.digest_of(modules)}
    for module in modules:
        Path(str(module.__file__)).write_text("SIZE = 2")
        seen.add(loops.digest_of(modules))
    assert len(seen) == 3


def test_it_is_part_of_the_name_under_which_loops_are_kept() -> None:
    digest = loops.digest_of(loops.COMPILED_IN)
    for loop in (reading_loops.answer, reading_loops.highest, writing_loops.append_postings):
        assert loop.py_func.__qualname__.endswith(digest)  # type: ignore[attr-defined]
