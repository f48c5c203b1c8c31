"""Test the commands, the Python blocks and the exit codes of sdk/README.md."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansei.client.cli.options import EXIT_CODES
from tests.fakes.openai_answers import chat
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems
from tests.support.commands import runner

ROOT = Path(__file__).parents[3]
README = (ROOT / "sdk/README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def checkout(system: systems.System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the examples, and set the address of the running system."""
    shutil.copytree(ROOT / "examples/trajectories", tmp_path / "examples/trajectories")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSEI_ADDR", system.address)
    return tmp_path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve a model at the address that OpenAI's client uses."""
    with OpenAIServer(otherwise=chat("Pull with --rebase, then push again.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield


def test_the_python_blocks_run(checkout: Path, model: None, capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks("python")
    assert len(found) == 9
    for block in found:
        exec(compile(block, "sdk/README.md", "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out, block


def test_the_shell_lines_run(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    block, _server = blocks("sh")  # the second starts a server for other machines
    hansei = runner(capfd)
    for line in block.splitlines():
        outcome = hansei(*shlex.split(line)[1:])
        assert outcome.code == 0, f"{line}\n{outcome.out}{outcome.err}"
        assert outcome.out or "export" in line, line


def test_the_exit_codes_are_those_of_the_code() -> None:
    table = re.search(r"^\| exit code .*?\n\|---.*?\n(.*?)\n\n", README, re.MULTILINE | re.DOTALL)
    assert table
    rows = [tuple(cell.strip() for cell in row.strip("| ").split("|")) for row in table[1].splitlines()]
    assert rows == [(str(code.value), meaning) for code, meaning in EXIT_CODES.items()]
