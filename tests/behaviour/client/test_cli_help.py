"""Test the help of the `hansei` command, and how little a command loads."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import protovalidate
import pytest
from google.protobuf.message import Message

from hansei.client.cli import root_command
from hansei.client.cli.examples import EXAMPLES
from hansei.client.cli.root import SECTIONS
from hansei.gateway.v1.access_service_pb2 import RevokeKeyRequest
from hansei.gateway.v1.bulk_service_pb2 import GetJobRequest
from hansei.planner.v1.planner_service_pb2 import GetExecutionRequest
from hansei.validator.v1.evaluation_pb2 import MetricConfig
from tests.support import systems
from tests.support.commands import runner

ROOT = Path(__file__).parents[3]
FILES_OF_EXAMPLES = ("trajectories.jsonl", "questions.json", "dashboard.json")
MODULES_OF_A_CALL = 430
"""A call of today loads 330 to 390 modules; the whole command line was 900."""


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name."""
    for name, command in (root_command() if group is None else group).commands.items():
        full = f"{prefix} {name}".strip()
        if hasattr(command, "commands"):
            yield from commands(command, full)
        else:
            yield full, command


def modules_after(*arguments: str, **environment: str) -> set[str]:
    """Return the modules that a command has loaded when it ends."""
    check = (
        "import sys; from hansei.client.cli import main\n"
        f"try: main({list(arguments)!r})\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.__stderr__)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    return set(ran.stderr.splitlines()[-1].split())


def test_each_command_has_examples_and_no_example_is_of_another_command() -> None:
    assert set(EXAMPLES) == {name for name, _ in commands()}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_each_example_parses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSEI_DATA_DIR", "")  # the callback of --data-dir sets it
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for file in FILES_OF_EXAMPLES:
        (tmp_path / file).touch()
    for example in EXAMPLES[name]:
        words = shlex.split(example.partition(" < ")[0].partition(" > ")[0])
        assert words[: 1 + len(name.split())] == ["hansei", *name.split()]
        arguments = words[1 + len(name.split()) :]
        context = dict(commands())[name].make_context(f"hansei {name}", arguments)
        assert not context.args
        for message in list_requests(name, context.params):
            protovalidate.validate(message)


def list_requests(name: str, values: dict[str, Any]) -> Iterator[Message]:
    """Yield requests with the ids and the weights of an example, whose rules are those of the contract."""
    if "job" in values and name.startswith("jobs "):
        yield GetJobRequest(job_id=values["job"])
    if values.get("execution"):
        yield GetExecutionRequest(execution_id=values["execution"])
    if "key_id" in values:
        yield RevokeKeyRequest(key_id=values["key_id"])
    for change in (*(values.get("approve") or ()), *(values.get("reject") or ())):
        assert uuid.UUID(change)
    if metrics := values.get("metric"):
        weights = [float(weight) for _, _, weight in (metric.partition("=") for metric in metrics) if weight]
        assert not weights or (len(weights) == len(metrics) and sum(weights) == 1)
        yield from (MetricConfig(name="metric", weight=weight) for weight in weights)


def test_the_examples_that_measure_a_file_work(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HANSEI_LLM_PROVIDER", "offline")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name in ("eval blame", "eval guards"):
        for example in EXAMPLES[name]:
            assert runner(capfd)(*shlex.split(example)[1:]).code == 0, example


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_help_has_the_examples_and_human_names_of_types(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = runner(capfd)(*name.split(), "--help").out
    assert all(f"  {example}\n" in text for example in EXAMPLES[name])
    assert not re.search(r"<(str|int|float|path|file|bool|dir|directory)\b|[<>]=x|x[<>]=", text)


def test_the_sections_of_the_help_have_every_command_once() -> None:
    names = [name for section in SECTIONS.values() for name in section]
    assert len(names) == len(set(names))
    assert set(root_command().commands) == set(names)


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_the_help_of_all_commands_describes_each_one_without_building_it(name: str) -> None:
    commands = root_command().commands
    assert commands.describe(name) == commands[name].get_short_help_str(1000)


def test_a_command_loads_no_other_command_and_its_help_loads_no_client() -> None:
    loaded = modules_after("search", "--help")
    others = {module for section in SECTIONS.values() for module in section.values()} - {"query"}
    assert "hansei.client.cli.query" in loaded
    assert not loaded & {f"hansei.client.cli.{module}" for module in others}
    assert not loaded & {"grpc", "rich", "google.protobuf", "asyncio", "opentelemetry"}


CALLS = {
    "search x -d missing --json": {"search"},
    "playbook history -d missing": {"playbook"},
    "keys list": {"gateway"},
    "jobs list --json": {"gateway"},
    "trials status missing": {"evidence", "playbook"},
    "plan list": {"planner"},
    "rounds list": {"validator"},
}
"""Calls of a running hansei, each with the packages of the contract whose services it calls."""
NEVER_LOADED = {
    "chassis.channels",
    "chassis.targets",
    "chassis.telemetry",
    "numpy",
    "opentelemetry",
    "pydantic_settings",
}
NEVER_LOADED |= {"services", "sqlalchemy", "structlog"}


@pytest.mark.parametrize("system", ["one process"], indirect=True)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_loads_only_what_it_needs(system: systems.System, call: str) -> None:
    loaded = modules_after(*call.split(), HANSEI_ADDR=system.address)
    assert "grpc" in loaded
    assert not loaded & NEVER_LOADED
    assert ("rich" in loaded) <= ("--json" not in call)
    services = {name.split(".")[3] for name in loaded if name.startswith("hansei.client.services.")}
    assert services == CALLS[call]
    assert len(loaded) < MODULES_OF_A_CALL


def test_a_long_result_goes_to_the_pager_of_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console
    from rich.text import Text

    from hansei.client.cli import output

    shown: list[str] = []
    text = Text("\n".join(f"line {number}" for number in range(200)))
    monkeypatch.setattr("pydoc.pager", shown.append)
    output.print_pages(text)
    assert (len(capsys.readouterr().out.splitlines()), shown) == (200, [])
    monkeypatch.setattr(output, "create_console", lambda: Console(force_terminal=True, height=50))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    output.print_pages(text)
    assert "line 199" in shown[0]
    output.print_pages(Text("short"))
    assert "short" in capsys.readouterr().out
