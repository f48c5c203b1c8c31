"""A run of the tests ends after a worker crashed, and runs every other test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import systems

HOOK = """from tests.support.scheduling import FileScheduling
def pytest_xdist_make_scheduler(config, log): return FileScheduling(config, log)
"""
SHORT = "import time\ndef test_a(): time.sleep(0.05)\ndef test_b(): time.sleep(0.05)\n"
CRASHING = """import os, pathlib
def test_before(): pass
def test_crash():
    mark = pathlib.Path("crashed")
    if not mark.exists():
        mark.touch()
        os._exit(1)
def test_after(): pass
"""
LONG = "import time\nimport pytest\n@pytest.mark.parametrize('number', range(4))\ndef test_c(number): time.sleep(0.3)\n"


def test_files_that_a_crashed_worker_had_finished_are_not_given_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(HOOK)
    for number in range(10, 30):
        (tmp_path / f"test_{number}.py").write_text(SHORT)
    (tmp_path / "test_30.py").write_text(CRASHING)
    (tmp_path / "test_31.py").write_text(LONG)
    for number in range(32, 36):
        (tmp_path / f"test_{number}.py").write_text(SHORT)
    options = [
        "-q",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "-p",
        "xdist.plugin",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(systems.ROOT),
            "HOME": str(tmp_path),
            # The plugins of other packages take each of the four processes seconds to import.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 55 passed" in done.stdout, done.stdout
    assert "crashed while running" in done.stdout
