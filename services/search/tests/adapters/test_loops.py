"""A loop is compiled anew when what is compiled into it has changed, wherever that stands."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest

from services.search.adapters import heap_loops, loops, reading_loops, writing_loops

MODULES = [heap_loops, reading_loops, writing_loops]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_module_whose_numbers_are_compiled_in_counts(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    ours = {name for name in imported if name and name.startswith("services.")} - {loops.__name__}
    assert ours <= set(loops.COMPILED_IN)


def test_the_digest_changes_with_each_of_them(tmp_path: Path) -> None:
    sources = [tmp_path / "one.py", tmp_path / "two.py"]
    for source in sources:
        source.write_text("SIZE = 1")
    seen = {loops.digest_of(sources)}
    for source in sources:
        source.write_text("SIZE = 2")
        seen.add(loops.digest_of(sources))
    assert len(seen) == 3


def test_it_is_part_of_the_name_under_which_loops_are_kept() -> None:
    for loop in (reading_loops.answer, heap_loops.highest, writing_loops.append_postings):
        assert loop.py_func.__qualname__.endswith(loops.DIGEST)  # type: ignore[attr-defined]
