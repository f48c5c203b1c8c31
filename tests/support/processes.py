"""Processes that tests start as `python -m module`: forked from a fork server that has imported hansei already.

Outside a test run, as in `bench/`, `python -m` starts them; also where their environment differs from that of the fork
server in a variable that is read while Python or a module is loaded.
"""

from __future__ import annotations

import atexit
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import reduction
from typing import IO, Any, Protocol

from tests.support.shared_resources import FORK_SERVER_VARIABLES, RunResources, end_with_parent, get_run

READ_AT_IMPORT = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "NUMBA_", "OTEL_PYTHON_", "OTEL_PROPAGATORS", "OTEL_SPAN_")
"""Prefixes of variables that Python, the loader, linear algebra and OpenTelemetry read while they are loaded."""
FORK_SERVER_ENVIRONMENT = {**os.environ, **FORK_SERVER_VARIABLES}
SYSTEM_PATH = sys.path[1:]
"""Import path of the fork server without the folder in which it was started."""


class Process(Protocol):
    """The operations of `subprocess.Popen` that tests use."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True)
class ModuleCommand:
    """A module that `python -m` runs in a folder, with an environment and arguments."""

    module: str
    folder: str
    environment: Mapping[str, str]
    arguments: tuple[str, ...] = ()

    def is_forkable(self) -> bool:
        """Return whether the fork server imported its modules with the same variables as this command."""
        read = {name: value for name, value in self.environment.items() if name.startswith(READ_AT_IMPORT) and value}
        return read.items() <= FORK_SERVER_ENVIRONMENT.items()


def start(command: ModuleCommand, output: IO[Any], errors: IO[Any]) -> Process:
    """Start a process that writes to these files."""
    run = get_run() if sys.platform == "linux" else None
    if run and command.is_forkable():
        return ForkedProcess(run, command, {1: output, 2: errors})
    arguments = [sys.executable, "-m", command.module, *command.arguments]
    return subprocess.Popen(arguments, cwd=command.folder, env=command.environment, stdout=output, stderr=errors)


class ForkedProcess:
    """A process of the fork server of this run."""

    def __init__(self, run: RunResources, command: ModuleCommand, files: Mapping[int, IO[Any]]) -> None:
        """`files` are those of the process by descriptor; one without 0 reads nothing."""
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self._run = run
        passed = {descriptor: reduction.DupFd(file.fileno()) for descriptor, file in files.items()}
        self.pid = run.start_process(run_module, command, passed)
        try:
            self._descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self.returncode = run.wait_for_exit_code(self.pid)

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status, which is negative if a signal ended the process. Raises `TimeoutExpired`."""
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._run.wait_for_exit_code(self.pid)
                    os.close(self._descriptor)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, sig)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.send_signal(signal.SIGKILL)


def run_module(command: ModuleCommand, files: Mapping[int, Any]) -> None:
    """Run a module in this process, which was forked for it, as `python -m` does."""
    end_with_parent(signal.SIGKILL)
    for descriptor, file in files.items():
        os.dup2(file.detach(), descriptor)
    if 0 in files:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  it stays open as long as the process runs
    # Also the pipe that keeps the fork server alive: it would otherwise wait for this process.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(command.environment)
    time.tzset()
    os.chdir(command.folder)
    sys.path[:] = [command.folder, *SYSTEM_PATH]
    sys.argv[:] = ["", *command.arguments]
    try:
        runpy.run_module(command.module, run_name="__main__", alter_sys=True)
    finally:
        # A process of `multiprocessing` ends without the functions that are registered for the exit of an interpreter.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
