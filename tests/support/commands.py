"""Run the `hansei` command in the process of the tests, and return its output and exit status."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hansei.client.cli import main
from tests.support import systems

EXAMPLES = Path(__file__).parents[2] / "examples/trajectories"


@dataclass(frozen=True)
class CommandResult:
    """The output and the exit status of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Parse stdout as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Parse stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Hansei = Callable[..., CommandResult]


@pytest.fixture
def hansei(
    system: systems.System,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Hansei:
    """Return a function that runs `hansei ARGUMENTS` against a running system, with a data directory of its own."""
    monkeypatch.setenv("HANSEI_DATA_DIR", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setenv("HANSEI_ADDR", system.address)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HANSEI_DATASET", raising=False)
    return runner(capfd)


def runner(capfd: pytest.CaptureFixture[str]) -> Hansei:
    def run_command(*arguments: object) -> CommandResult:
        capfd.readouterr()
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        written = capfd.readouterr()
        return CommandResult(code, written.out, written.err)

    return run_command


@pytest.fixture
def dataset() -> str:
    return f"cli-{uuid.uuid4().hex[:12]}"


def copy_trajectories(directory: Path, dataset: str, *ids: str) -> list[Path]:
    """Copy recorded trajectories into a dataset, and return their files."""
    files = []
    for id_ in ids:
        trajectory = json.loads((EXAMPLES / f"{id_}.json").read_text(encoding="utf-8"))
        file = directory / f"{id_}.json"
        file.write_text(json.dumps(trajectory | {"dataset": dataset}), encoding="utf-8")
        files.append(file)
    return files


def bullets(hansei: Hansei, dataset: str) -> list[Any]:
    found: list[Any] = hansei("playbook", "show", "-d", dataset, "--json").document["bullets"]
    return found


def revision(hansei: Hansei, dataset: str) -> int:
    return int(hansei("playbook", "show", "-d", dataset, "--json").document["revision"])
