"""Compare the sizes of images, measured as by `python -m deploy.sizes`, with the table in `deploy/README.md`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deploy.prune import prune
from deploy.sizes import ROOT, SERVICES, measure_megabytes
from tests.support.campaigns import campaign_cases

pytestmark = pytest.mark.long

LIMITS = dict.fromkeys(SERVICES, 200) | {"curator": 280, "search": 525, "validator": 395}
FOLDERS = ("numpy", "numpy.libs", "faiss", "faiss_cpu.libs", "packaging", "llvmlite", "numba", "uvloop")
DIFFERENCE = 0.05
"""Versions of packages for other Pythons differ by this share at most."""


def table() -> dict[str, int]:
    rows = re.findall(r"^\| (\w+) \| (\d+) \|$", (ROOT / "deploy/README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {name: int(size) for name, size in rows}


def test_the_table_keeps_the_limits() -> None:
    assert list(table()) == list(SERVICES)
    assert {name: size for name, size in table().items() if size > LIMITS[name]} == {}


@pytest.mark.parametrize("service", campaign_cases(sorted(SERVICES), short=1))
def test_an_image_has_the_size_of_the_table(service: str) -> None:
    assert measure_megabytes(service) == pytest.approx(table()[service], rel=DIFFERENCE)


def test_compiled_modules_can_be_imported_after_pruning(tmp_path: Path) -> None:
    """Another `strip` broke the libraries of NumPy, so that three images could not start."""
    if not shutil.which("eu-strip"):
        assert not os.environ.get("HANSEI_REQUIRE_ELFUTILS"), "elfutils is not installed"
        pytest.skip("elfutils is not installed: nothing was pruned")
    installed = Path(np.__file__).parents[1]
    for folder in FOLDERS:
        shutil.copytree(installed / folder, tmp_path / folder)
    before = count_bytes(tmp_path)
    prune(tmp_path)
    assert count_bytes(tmp_path) < before
    # -S: do not use the packages of this environment.
    command = [sys.executable, "-S", "-c", "import numpy, faiss, numba, uvloop"]
    subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, check=True)


def count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.so*"))
