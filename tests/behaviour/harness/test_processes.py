"""A forked process behaves, for those who start it and for itself, as one that `python -m` started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import systems
from tests.support.processes import ForkedProcess, ModuleCommand, Process, start
from tests.support.shared_resources import CODE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

ENVIRONMENT = {"PATH": os.defpath, "PYTHONPATH": CODE, "LANG": "C.UTF-8", "ANSWER": "四十二"}
REPORTING = """
import json, os, random, signal, sys, threading

report = {
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "name": __name__,
    "arguments": sys.argv,
    "path": sys.path,
    "group": os.getpgrp(),
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "threads": threading.active_count(),
}
print(json.dumps(report))
print(random.getrandbits(64))
print("a complaint", file=sys.stderr)
sys.exit(3)
"""
LISTENING = """
import os, signal, socket

listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
print("listening", flush=True)
signal.pause()
"""


StartProgram = Callable[[str, dict[str, str]], tuple[Process, Any]]


@pytest.fixture
def start_program(tmp_path: Path) -> StartProgram:
    """Return a function that forks a program with an environment; it returns the process and its output."""

    def start_program(program: str, environment: dict[str, str]) -> tuple[Process, Any]:
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as output:
            process = start(ModuleCommand("program", str(tmp_path), environment), output, output)
        assert isinstance(process, ForkedProcess)
        return process, os.fdopen(reading, encoding="utf-8")

    return start_program


def test_a_forked_process_has_the_state_of_a_started_one(start_program: StartProgram, tmp_path: Path) -> None:
    forked, output = start_program(REPORTING, ENVIRONMENT)
    with output:
        report, number, complaint = output.read().splitlines()
    assert forked.wait() == 3
    # If the tests run in the background, a process inherits the disposition to ignore interrupts.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "program"]
    started = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert json.loads(report) == json.loads(started.stdout.splitlines()[0])
    assert complaint == "a complaint"
    second, output = start_program(REPORTING, ENVIRONMENT)
    with output:
        assert output.read().splitlines()[1] != number
    assert second.wait() == 3


def test_a_forked_process_has_imported_the_services(start_program: StartProgram) -> None:
    """The fork server ignores a module that it cannot import, and each process then imports it."""
    process, output = start_program("import sys; print(*sys.modules)", ENVIRONMENT)
    with output:
        imported = set(output.read().split())
    assert {"alembic.command", "gateway.http.app", "psycopg", "services.curator.bootstrap"} <= imported
    assert process.wait() == 0


def test_a_killed_process_frees_its_port(start_program: StartProgram) -> None:
    ports = [systems.free_port(), systems.free_port()]
    processes = []
    for port in ports:
        process, output = start_program(LISTENING, {**ENVIRONMENT, "PORT": str(port)})
        processes.append(process)
        with output:
            assert output.readline() == "listening\n"
    killed, running = processes
    assert killed.poll() is None
    killed.kill()
    assert killed.wait() == killed.returncode == killed.poll() == -signal.SIGKILL
    socket.create_server(("127.0.0.1", ports[0])).close()
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.001)
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait() == -signal.SIGTERM
    running.terminate()


def test_a_failing_process_writes_its_traceback(start_program: StartProgram) -> None:
    process, output = start_program("raise ValueError('not today')", ENVIRONMENT)
    with output:
        assert "ValueError: not today" in output.read()
    assert process.wait() == 1


def test_variables_read_by_the_interpreter_start_a_new_process(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.flags.hash_randomization)", encoding="utf-8")
    with (tmp_path / "out").open("w+b") as output:
        for variables, kind in (({}, ForkedProcess), ({"PYTHONHASHSEED": "0"}, subprocess.Popen)):
            process = start(ModuleCommand("program", str(tmp_path), ENVIRONMENT | variables), output, output)
            assert isinstance(process, kind)
            assert process.wait() == 0
        output.seek(0)
        assert output.read() == b"1\n0\n"


@pytest.mark.parametrize("arguments", [["--version"], ["search", "x", "--top-k", "0"]])
def test_a_forked_command_has_the_output_and_the_status_of_a_started_one(arguments: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": CODE}
    forked, started = (
        subprocess.run(
            [sys.executable, "-m", f"tests.support.{module}", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for module in ("forked_command", "command_line")
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert forked.stdout or forked.stderr
