"""No command shows internals of Python for any wrong input.

The command lines are derived from the commands themselves: each argument and each option, each kind of wrong value.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansei.client import Client
from tests.behaviour.client.test_cli_shell import commands
from tests.support.commands import Hansei, runner
from tests.support.systems import one_process
from tests.support.wrong_inputs import find_python_form

pytestmark = pytest.mark.long

SERVERS = {"up", "demo", "mcp", "a2a"}
"""They run until they are stopped."""
UUID = "0f0e0d0c-0b0a-4908-8706-050403020100"
FILES: dict[str, bytes] = {
    "empty.json": b"",
    "binary.json": b"\xff\xfe\x00\x01",
    "half.json": b'{"steps": [',
    "list.json": b"[]",
    "null.json": b"null",
    "number.json": b"7",
    "object.json": b'{"nothing": 1, "steps": {"a": [1, {"b": null}]}}',
    "objects.json": b'[{"nothing": [1, "text"]}, 7]',
    "steps.json": b'{"original_query": 7, "steps": [{"step_id": "x", "action": true}]}',
    "broken.toml": b"[half\n",
}
TEXTS = ("", "text", "a c", "7", "-1", "1.5", "99999999999999999999", "0123456789ab", UUID, "x" * 400, "missing.json")
FOLDER = "folder"


def wrong_values(folder: Path) -> list[str]:
    return [*TEXTS, FOLDER, *FILES]


def build_lines(command: Any, folder: Path) -> Iterator[list[str]]:
    """Yield argument lists in which one parameter has a wrong value, and the other required ones have some value."""
    settable = [param for param in command.params if not is_flag(param) and param.name not in ("help", "addr", "local")]
    yield []
    for param in settable:
        for value in wrong_values(folder):
            options, positions = list(required_flags(command)), []
            for other in settable:
                if other is not param and not other.required:
                    continue
                text = value if other is param else "text"
                if other.param_type_name == "option":
                    options.append(
                        f"{other.opts[0]}={text}" if other.opts[0].startswith("--") else other.opts[0] + text
                    )
                else:
                    positions.append(text)
            yield [*options, "--", *positions]


def required_flags(command: Any) -> Iterator[str]:
    for param in command.params:
        if is_flag(param) and (param.required or param.name == "yes"):
            yield param.opts[0]


def is_flag(param: Any) -> bool:
    return bool(getattr(param, "is_flag", False))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a hansei with one dataset: `status` reads all, so it would be slow in the shared one."""
    with one_process(tmp_path_factory.mktemp("messages")) as system, Client(system.address) as client:
        client.import_playbook("text", b"[b-1] Pull first.\n")
        yield system.address


@pytest.fixture
def hansei(address: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Hansei:
    monkeypatch.setenv("HANSEI_ADDR", address)
    monkeypatch.setenv("HANSEI_EMBEDDING_PROVIDER", "hashing")  # `doctor` and `eval` load no model for each line
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HANSEI_DATASET", raising=False)
    return runner(capfd)


@pytest.mark.parametrize("typed", [["--playbook-holdout", "7"], ["--playbook-holdout=7"]])
def test_an_error_names_the_option_instead_of_the_field_of_the_contract(hansei: Hansei, typed: list[str]) -> None:
    outcome = hansei("trials", "start", "text", *typed)
    assert outcome.code == 2
    rule = "--playbook-holdout must be greater than or equal to 0 and less than or equal to 0.5"
    assert outcome.err.splitlines() == [f"Error: {rule} [INVALID_REQUEST]", f"  {rule} (got 7.0)"]


@pytest.mark.parametrize("name", [name for name, _ in commands() if name not in SERVERS])
def test_no_command_shows_python(hansei: Hansei, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file, content in FILES.items():
        (tmp_path / file).write_bytes(content)
    (tmp_path / FOLDER).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSEI_DATA_DIR", str(tmp_path / "data"))
    command = dict(commands())[name]
    found = []
    for line in build_lines(command, tmp_path):
        typed = shlex.join(["hansei", *name.split(), *line])[:200]
        try:
            outcome = hansei(*name.split(), *line)
        except Exception as error:  # a command ends with an exit code, so this would be a traceback
            found.append(f"{typed}: {type(error).__name__}: {error}"[:400])
            continue
        finally:
            os.chdir(tmp_path)
        if outcome.code and (form := find_python_form(outcome.err)):
            found.append(f"{typed}: {form}")
    assert not found, f"{len(found)}:\n" + "\n".join(found[:12])
