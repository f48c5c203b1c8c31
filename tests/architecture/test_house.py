"""The shape of the house: the rooms are there, the arrows hold, and nothing has a name that says nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from alembic.config import Config
from alembic.script import ScriptDirectory

from libs.sql.migrations import newest_in

ROOT = Path(__file__).parents[2]
OWN = ("chassis", "libs", "services", "gateway", "allinone", "sdk", "examples", "bench", "tests")
NAMELESS = {"common", "utils", "util", "helpers", "helper", "core", "misc", "base"}
ROOMS = {
    "README.md",
    "__main__.py",
    "settings.py",
    "bootstrap.py",
    "rpc",
    "usecases",
    "domain",
    "adapters",
    "tests",
}
SERVICES = sorted(name for name in yaml.safe_load((ROOT / "deploy/services.yaml").read_text())["services"])

MIGRATIONS = sorted(path.parent for path in ROOT.glob("[gs]*/**/migrations/env.py"))


def modules() -> Iterator[Path]:
    """Every Python file that is written by hand."""
    for folder in OWN:
        yield from (path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("service", [name for name in SERVICES if name != "gateway"])
def test_every_service_has_the_same_rooms(service: str) -> None:
    assert {path.name for path in (ROOT / "services" / service).iterdir()} >= ROOMS


def test_the_folders_of_services_are_those_of_the_list() -> None:
    folders = [path.name for path in (ROOT / "services").iterdir() if (path / "__main__.py").exists()]
    assert sorted([*folders, "gateway"]) == SERVICES


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [str(path) for path in modules() if {path.stem, path.parent.name} & NAMELESS] == []


def test_hansei_is_a_namespace_package() -> None:
    assert [str(root) for root in (ROOT / "sdk", ROOT / "stubs") if (root / "hansei/__init__.py").exists()] == []


@pytest.mark.parametrize("folder", MIGRATIONS, ids=lambda path: str(path.relative_to(ROOT).parent))
def test_the_last_migration_by_number_is_the_newest(folder: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(folder))
    assert ScriptDirectory.from_config(config).get_heads() == [newest_in(folder)]


def test_stubs_hold_nothing_written_by_hand() -> None:
    endings = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi", "_policy.json")
    written = [path for path in (ROOT / "stubs").rglob("*") if path.is_file() and not path.name.endswith(endings)]
    assert [path for path in written if "__pycache__" not in path.parts] == []


def test_the_arrows_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
