"""Check the structure of the repository: folders of services, permitted imports, and meaningful module names."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest
import yaml
from alembic.script import ScriptDirectory

from libs.storage.migrations import find_newest_revision

ROOT = Path(__file__).parents[2]
OWN = ("chassis", "libs", "services", "gateway", "allinone", "sdk", "examples", "bench", "tests")
PROGRAMS = ("hansei.client", "hansei.mcp_server", "hansei.a2a_server")
PACKAGES = ("chassis", "libs", "services", "gateway", "allinone", *PROGRAMS)
NAMELESS = {"common", "utils", "util", "helpers", "helper", "core", "misc", "base"}
FOLDERS = {
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

CORE_OF_ADAPTERS = {"__init__", "agent_memory", "chat_messages"}
ADAPTERS = sorted(
    path for path in (ROOT / "sdk/hansei/client/adapters").glob("*.py") if path.stem not in CORE_OF_ADAPTERS
)
MIGRATIONS = sorted(path.parent for path in ROOT.glob("[gs]*/**/migrations/versions"))


def modules() -> Iterator[Path]:
    """Yield every Python file that people write."""
    for folder in OWN:
        yield from (path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("service", [name for name in SERVICES if name != "gateway"])
def test_every_service_has_the_same_folders(service: str) -> None:
    assert {path.name for path in (ROOT / "services" / service).iterdir()} >= FOLDERS


def test_the_folders_of_services_are_those_of_the_list() -> None:
    folders = [path.name for path in (ROOT / "services").iterdir() if (path / "__main__.py").exists()]
    assert sorted([*folders, "gateway"]) == SERVICES


def test_no_module_has_a_meaningless_name() -> None:
    assert [str(path) for path in modules() if {path.stem, path.parent.name} & NAMELESS] == []


def test_hansei_is_a_namespace_package() -> None:
    assert [str(root) for root in (ROOT / "sdk", ROOT / "stubs") if (root / "hansei/__init__.py").exists()] == []


@pytest.mark.parametrize("folder", MIGRATIONS, ids=lambda path: str(path.relative_to(ROOT).parent))
def test_the_last_migration_by_number_is_the_newest(folder: Path) -> None:
    assert ScriptDirectory(folder).get_heads() == [find_newest_revision(folder)]


def test_stubs_hold_nothing_written_by_hand() -> None:
    endings = (
        "py.typed",
        "_pb2.py",
        "_pb2.pyi",
        "_pb2_grpc.py",
        "_pb2_grpc.pyi",
        "_policy.json",
        "/sources.binpb",
        "/services.json",
    )
    written = [path for path in (ROOT / "stubs").rglob("*") if path.is_file() and not str(path).endswith(endings)]
    assert [path for path in written if "__pycache__" not in path.parts] == []


def test_imports_follow_the_layers() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def find_cycle(successors: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the nodes of one cycle, in order; none if there is no cycle."""
    try:
        tuple(TopologicalSorter(successors).static_order())
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_module_imports_one_that_imports_it() -> None:
    # Also imports that only types need: who reads one of the modules must know the other.
    graph = grimp.build_graph(*PACKAGES)
    assert find_cycle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_no_service_calls_one_that_calls_it() -> None:
    services = yaml.safe_load((ROOT / "deploy/services.yaml").read_text())["services"]
    calls = {name: listed["calls"] for name, listed in services.items()}
    assert find_cycle(calls) == []
    # The calls before the curator embedded texts itself.
    assert set(find_cycle({**calls, "curator": ["search"]})) == {"curator", "search"}


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda path: str(path.stem))
def test_an_adapter_of_a_framework_is_short(adapter: Path) -> None:
    # What several adapters do belongs in their core (docs/adr/188).
    source = adapter.read_text(encoding="utf-8")
    code = source.splitlines()[ast.parse(source).body[0].end_lineno :]
    assert sum(bool(line.strip()) for line in code) <= 50
