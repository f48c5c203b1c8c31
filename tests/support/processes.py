"""Processes that tests start: forked from one that has imported hansei already (`tests/support/zygote.py`).

Outside of a run of the tests, as in `bench/`, and with variables that are read before the first line of a module or
while it is imported, they start as for a user, by `python -m`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from tests.support.shared_resources import CODE, ROOT, of_the_run
from tests.support.zygote import LONGEST, READY, Order

# By Python, the loader, libraries of linear algebra and OpenTelemetry; what else hansei imports reads is not for tests.
READ_AT_IMPORT = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "NUMBA_", "OTEL_PYTHON_", "OTEL_PROPAGATORS", "OTEL_SPAN_")


class Process(Protocol):
    """What tests do with a process; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Forked:
    """A process that another one forked for us: its parent tells how it ended."""

    def __init__(self, pid: int, descriptor: int, parent: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._descriptor = descriptor
        self._parent = parent

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, negative if a signal ended it. Raises `TimeoutExpired`."""
        if self.returncode is None:
            self._parent.settimeout(timeout)
            try:
                told = self._parent.recv(LONGEST)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0) from None
            # It does not outlive its parent, whose end is one for it, too.
            self.returncode = int(told) if told else -signal.SIGKILL
            self._parent.close()
            os.close(self._descriptor)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True)
class Zygote:
    """A running zygote: where it listens, where it writes, and what it has of variables that are read at imports."""

    socket: str
    log: Path
    read: Mapping[str, str]

    def can_be(self, order: Order) -> bool:
        """Whether it read all variables at its imports as the process that was ordered would."""
        asked = _read_at_import(order.environment)
        return all(value == self.read.get(name) for name, value in asked.items() if value)

    def fork(self, order: Order, output: IO[Any], errors: IO[Any]) -> Forked:
        """The process that was ordered; its end is told where it was asked for."""
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with suppress(ConnectionError):
            asking.connect(self.socket)
            socket.send_fds(asking, [order.to_bytes()], [output.fileno(), errors.fileno()])
            told, descriptors, _, _ = socket.recv_fds(asking, LONGEST, 1)
            if told:
                return Forked(int(told), descriptors[0], asking)
        asking.close()
        raise AssertionError(f"the zygote has ended:\n{self.log.read_text(errors='replace')[-4000:]}")


def start(order: Order, output: IO[Any], errors: IO[Any]) -> Process:
    """The process that was ordered, writing to these files."""
    # Elsewhere a process cannot be made to end with its parent.
    zygote = of_the_run(running_zygote) if sys.platform == "linux" else None
    if zygote and zygote.can_be(order):
        return zygote.fork(order, output, errors)
    command = [sys.executable, "-m", order.module]
    return subprocess.Popen(command, cwd=order.folder, env=order.environment, stdout=output, stderr=errors)


@contextmanager
def running_zygote(folder: Path, ready: Sequence[str] = READY) -> Iterator[Zygote]:
    """A zygote that ends with the block, or with this process."""
    environment = {**os.environ, "PYTHONPATH": CODE, "OPENBLAS_NUM_THREADS": "1"}
    log = folder / "log"
    # The name of a socket may have a hundred letters, fewer than that of the folder.
    with tempfile.TemporaryDirectory(prefix="hansei-") as name, log.open("wb") as written:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"{name}/socket")
        listener.listen(128)
        command = [sys.executable, "-m", "tests.support.zygote", str(listener.fileno()), *ready]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=written,
            stderr=written,
            pass_fds=[listener.fileno()],
        ):
            listener.close()
            yield Zygote(f"{name}/socket", log, _read_at_import(environment))


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}
