"""A forked process is to those who start it, and to itself, as one that was started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import systems
from tests.support.processes import Forked, Process, Zygote, running_zygote, start
from tests.support.shared_resources import CODE
from tests.support.zygote import Order

ENVIRONMENT = {"PATH": os.defpath, "PYTHONPATH": CODE, "LANG": "C.UTF-8", "ANSWER": "四十二"}
TELLING = """
import json, os, random, signal, sys, threading

told = {
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "name": __name__,
    "arguments": sys.argv,
    "path": sys.path,
    "group": os.getpgrp(),
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "signals": [str(signal.getsignal(each)) for each in sorted(signal.valid_signals())],
    "threads": threading.active_count(),
}
print(json.dumps(told))
print(random.getrandbits(64))
print("a complaint", file=sys.stderr)
sys.exit(3)
"""
LISTENING = """
import os, signal, socket

listening = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
print("there", flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with running_zygote(tmp_path_factory.mktemp("zygote"), ready=()) as running:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as giving_up:
            giving_up.connect(running.socket)
        yield running


Begin = Callable[[str, dict[str, str]], tuple[Process, Any]]


@pytest.fixture
def begin(tmp_path: Path, zygote: Zygote) -> Begin:
    """Forks a program with an environment; the process, and what it writes."""

    def begun(program: str, environment: dict[str, str]) -> tuple[Process, Any]:
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        order = Order("program", str(tmp_path), environment)
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as output:
            return zygote.fork(order, output, output), os.fdopen(reading, encoding="utf-8")

    return begun


def test_it_has_what_a_started_one_has(begin: Begin, tmp_path: Path) -> None:
    forked, written = begin(TELLING, ENVIRONMENT)
    with written:
        told, number, complaint = written.read().splitlines()
    assert forked.wait() == 3
    # Where the tests were started in the background a process would inherit that interrupts are ignored.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "program"]
    started = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert json.loads(told) == json.loads(started.stdout.splitlines()[0])
    assert complaint == "a complaint"
    again, written = begin(TELLING, ENVIRONMENT)
    with written:
        assert written.read().splitlines()[1] != number
    assert again.wait() == 3


def test_a_killed_one_leaves_its_port_though_others_were_forked_since(begin: Begin) -> None:
    ports = [systems.free_port(), systems.free_port()]
    processes = []
    for port in ports:
        process, written = begin(LISTENING, {**ENVIRONMENT, "PORT": str(port)})
        processes.append(process)
        with written:
            assert written.readline() == "there\n"
    killed, staying = processes
    assert killed.poll() is None
    killed.kill()
    assert killed.wait() == killed.returncode == killed.poll() == -signal.SIGKILL
    socket.create_server(("127.0.0.1", ports[0])).close()
    with pytest.raises(subprocess.TimeoutExpired):
        staying.wait(0.001)
    os.kill(staying.pid, signal.SIGTERM)
    assert staying.wait() == -signal.SIGTERM
    staying.terminate()


def test_all_end_with_the_one_that_forked_them(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import signal; signal.pause()", encoding="utf-8")
    with running_zygote(tmp_path, ready=()) as zygote, (tmp_path / "out").open("wb") as output:
        process = zygote.fork(Order("program", str(tmp_path), ENVIRONMENT), output, output)
    assert process.wait() == -signal.SIGKILL


def start_a_thread() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


@pytest.mark.parametrize(
    ("ready", "why"), [("no.such_module", "No module named 'no'"), (f"{__name__}:start_a_thread", "2 threads")]
)
def test_one_that_cannot_fork_says_why(ready: str, why: str, tmp_path: Path) -> None:
    order = Order("program", str(tmp_path), ENVIRONMENT)
    with running_zygote(tmp_path, ready=[ready]) as zygote, (tmp_path / "out").open("wb") as output:
        for _ in range(2):
            with pytest.raises(AssertionError, match=why):
                zygote.fork(order, output, output)


def test_what_is_read_at_imports_is_not_forked(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.flags.hash_randomization)", encoding="utf-8")
    with (tmp_path / "out").open("w+b") as output:
        for own, kind in (({}, Forked), ({"PYTHONHASHSEED": "0"}, subprocess.Popen)):
            process = start(Order("program", str(tmp_path), ENVIRONMENT | own), output, output)
            assert isinstance(process, kind)
            assert process.wait() == 0
        output.seek(0)
        assert output.read() == b"1\n0\n"
