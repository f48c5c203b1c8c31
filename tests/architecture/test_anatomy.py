"""The second level is the same in every service and in every part of the gateway that keeps state."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LISTED = yaml.safe_load((ROOT / "deploy/services.yaml").read_text())["services"]
SERVICES = [name for name in LISTED if name != "gateway"]
PARTS = [*(f"services/{name}" for name in SERVICES), "gateway/access", "gateway/bulk", "gateway/otlp"]
KEEPING_STATE = [
    *(f"services/{name}" for name in SERVICES if "database" in LISTED[name]),
    "gateway/access",
    "gateway/bulk",
    "gateway/otlp",
    "gateway/outbox",
]

RPC_BESIDE = {
    # Access control precedes the methods of all services, so its metadata is read at the edge, too.
    "gateway/access": {"guard", "methods", "named_resources"},
}
FORMER_NAMES = {"measures", "opening", "writer", "store", "times", "codec", "failures"}


def stems(folder: Path) -> set[str]:
    """Return the names of the modules and packages in a folder."""
    return {path.stem for path in folder.iterdir()} - {"__pycache__", "__init__"}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_only_the_allowed_folders(part: str) -> None:
    assert stems(ROOT / part) >= {"rpc", "usecases", "domain", "adapters", "tests", "bootstrap", "settings"}


@pytest.mark.parametrize("part", PARTS)
def test_rpc_holds_servicers_and_conversions(part: str) -> None:
    # A part needs no conversions where `encode` of the chassis makes all of its messages.
    assert stems(ROOT / part / "rpc") - RPC_BESIDE.get(part, set()) - {"convert"} == {"servicer"}


@pytest.mark.parametrize("part", PARTS)
def test_dependencies_of_use_cases_are_in_ports(part: str) -> None:
    assert "ports" in stems(ROOT / part / "usecases")


@pytest.mark.parametrize("part", KEEPING_STATE)
def test_sql_adapters_have_schema_queries_and_repository(part: str) -> None:
    assert stems(ROOT / part / "adapters/sql") >= {"schema", "queries", "repository", "migrations"}


@pytest.mark.parametrize("part", PARTS)
def test_adapters_have_no_private_mechanisms_of_the_libraries(part: str) -> None:
    names = {path.stem for path in (ROOT / part / "adapters").rglob("*.py")}
    assert names & FORMER_NAMES == set()


@pytest.mark.parametrize("part", PARTS)
def test_prompts_are_in_prompts(part: str) -> None:
    folders = [ROOT / part / name for name in ("domain", "usecases", "adapters")]
    assert [str(path) for folder in folders for path in folder.rglob("*prompt*.py")] == []
