"""The resources of a run are created once, and closed when the run ends, however it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import ModuleCommand, start
from tests.support.shared_resources import CODE, ROOT, get_shared

RUN = """
import sys
from pathlib import Path
from tests.behaviour.harness.test_shared_resources import sleeping_process
from tests.support.shared_resources import get_shared, run_manager

if __name__ == "__main__":
    with run_manager(Path(sys.argv[1]), preload=["tests.support.processes"]):
        print(get_shared(sleeping_process), flush=True)
        sys.stdin.read()
"""


@contextmanager
def folder_with_owner(data: Path) -> Iterator[Path]:
    (data / "owner").write_text(str(os.getpid()))
    yield data


@contextmanager
def sleeping_process(data: Path) -> Iterator[Path]:
    """Yield a process that the run forks, and a pipe from which readers learn that the resource was closed."""
    os.mkfifo(data / "end")
    (data / "sleeper.py").write_text("import signal; print('sleeping', flush=True); signal.pause()")
    with (data / "output").open("wb") as output:
        sleeper = start(ModuleCommand("sleeper", str(data), {**os.environ, "PYTHONPATH": CODE}), output, output)
    (data / "pids").write_text(f"{os.getpid()} {sleeper.pid}")
    try:
        yield data
    finally:
        (data / "end").write_text("closed")


@contextmanager
def failing_resource(_data: Path) -> Iterator[Path]:
    raise ValueError("not today")
    yield


@dataclass(frozen=True)
class Run:
    """Another run, with its manager and its sleeping process."""

    process: subprocess.Popen[str]
    data: Path

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.data / "pids").read_text().split()]

    def assert_closed(self) -> None:
        descriptors = [os.pidfd_open(pid) for pid in self.pids if Path(f"/proc/{pid}").exists()]
        assert (self.data / "end").read_text() == "closed"
        for descriptor in descriptors:
            with os.fdopen(descriptor):
                assert select.select([descriptor], [], [], 60)[0], "it has ended"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": CODE}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield Run(process, Path(process.stdout.readline().strip()))
        process.kill()


def test_a_resource_is_created_once_and_not_in_this_process() -> None:
    with ThreadPoolExecutor(4) as threads:
        (folder,) = set(threads.map(get_shared, [folder_with_owner] * 4))
    assert int((folder / "owner").read_text()) != os.getpid()


def test_a_run_that_ends_closes_its_resources(run: Run) -> None:
    assert run.process.stdin is not None
    run.process.stdin.close()
    run.assert_closed()
    assert run.process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_run_that_a_signal_ends_closes_its_resources(run: Run, number: signal.Signals) -> None:
    run.process.send_signal(number)
    run.assert_closed()


def test_a_manager_that_a_signal_ends_closes_its_resources(run: Run) -> None:
    os.kill(run.pids[0], signal.SIGTERM)
    run.assert_closed()


def test_an_error_of_a_factory_is_raised() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="not today"):
            get_shared(failing_resource)
