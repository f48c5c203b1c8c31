"""The `hansei` command as tests run it: in this process, with what it wrote and how it ended."""

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
class Said:
    """What a command wrote and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout as the one JSON document it must be."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Stdout as the JSON lines it must be."""
        return [json.loads(line) for line in self.out.splitlines()]


Hansei = Callable[..., Said]


@pytest.fixture
def hansei(system: systems.System, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Hansei:
    """Runs `hansei ARGUMENTS` against a running system."""
    monkeypatch.setenv("HANSEI_ADDR", system.address)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HANSEI_DATASET", raising=False)
    return runner(capfd)


def runner(capfd: pytest.CaptureFixture[str]) -> Hansei:
    def run(*arguments: object) -> Said:
        capfd.readouterr()
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        written = capfd.readouterr()
        return Said(code, written.out, written.err)

    return run


@pytest.fixture
def dataset() -> str:
    return f"cli-{uuid.uuid4().hex[:12]}"


def recorded(directory: Path, dataset: str, *ids: str) -> list[Path]:
    """Recorded runs as files of a dataset of their own."""
    files = []
    for each in ids:
        run = json.loads((EXAMPLES / f"{each}.json").read_text(encoding="utf-8"))
        file = directory / f"{each}.json"
        file.write_text(json.dumps(run | {"dataset": dataset}), encoding="utf-8")
        files.append(file)
    return files


def bullets(hansei: Hansei, dataset: str) -> list[Any]:
    found: list[Any] = hansei("playbook", "show", "-d", dataset, "--json").document["bullets"]
    return found


def revision(hansei: Hansei, dataset: str) -> int:
    return int(hansei("playbook", "show", "-d", dataset, "--json").document["revision"])
