"""Resources that all processes of a test run share: created on first use, closed when the run ends.

One process, a `multiprocessing` manager, owns them. It also forks the processes of `tests/support/processes.py`, so
that one fork server is enough for a run. Workers of pytest-xdist find the manager by the variable `TESTS_RUN`.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerProcess
from multiprocessing.managers import BaseManager
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, TypeVar, cast

ROOT = Path(__file__).parents[2]
CODE = os.pathsep.join(str(ROOT / part) for part in ("", "stubs", "sdk"))
"""PYTHONPATH of processes that run the code of this repository."""
RUN_VARIABLE = "TESTS_RUN"
FORK_SERVER_VARIABLES = {"PYTHONPATH": CODE, "OPENBLAS_NUM_THREADS": "1"}
CLOSE_SECONDS = 120
PRELOAD = ("tests.support.processes", "tests.support.preload")
T = TypeVar("T")
Factory = Callable[[Path], AbstractContextManager[T]]


class RunResources:
    """Owns the shared resources and the forked processes of a run. Threads of the manager call its methods."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._locks: defaultdict[Factory[Any], threading.Lock] = defaultdict(threading.Lock)
        self._pickled: dict[Factory[Any], bytes] = {}
        self._stack = ExitStack()
        self._processes: dict[int, ForkServerProcess] = {}

    def get_pickled(self, factory: Factory[Any]) -> bytes:
        """Return the pickled value of a resource; create it, with a folder of its own, if it does not exist yet."""
        with self._lock:
            lock = self._locks[factory]
        with lock:
            if factory not in self._pickled:
                data = Path(tempfile.mkdtemp(prefix="shared-", dir=self._folder))
                self._pickled[factory] = pickle.dumps(self._stack.enter_context(factory(data)))
            return self._pickled[factory]

    def start_process(self, target: Callable[..., None], *arguments: object) -> int:
        """Fork a process that calls a function, and return its pid."""
        # A daemon: the manager terminates it at its own end.
        process = ForkServerProcess(target=target, args=arguments, daemon=True)
        with self._lock:
            process.start()
        assert process.pid
        self._processes[process.pid] = process
        return process.pid

    def wait_for_exit_code(self, pid: int) -> int:
        """Wait until a process that `start_process` forked has ended, and return its exit code, once."""
        process = self._processes.pop(pid)
        connection.wait([process.sentinel])
        # `Process.start` polls all processes; two threads must not read the same exit code.
        with self._lock:
            code = process.exitcode
            process.close()
        assert code is not None
        return code

    def close(self) -> None:
        """Close all resources, in the reverse order of their creation."""
        self._stack.close()


class RunManager(BaseManager):
    """The process that owns the `RunResources`; in other processes, a connection to it."""


_own_resources: RunResources | None = None


def _get_own_resources() -> RunResources:
    """Return the resources of this process, the manager."""
    assert _own_resources is not None
    return _own_resources


RunManager.register("resources", _get_own_resources)


def _initialise_manager(folder: Path, preload: Sequence[str]) -> None:
    """Prepare the manager process: it closes all resources when it ends, at the latest when its parent ends."""
    global _own_resources
    end_with_parent(signal.SIGTERM)
    # `timeout` and others that end all processes of a run at once send SIGTERM to this one, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    _own_resources = RunResources(folder)
    Finalize(None, _own_resources.close, exitpriority=1)
    forkserver.set_forkserver_preload(list(preload))
    os.environ.update(FORK_SERVER_VARIABLES)


def end_with_parent(number: signal.Signals) -> None:
    """Let the system send this process a signal when the thread that started it ends."""
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, number)


@contextmanager
def run_manager(folder: Path, preload: Sequence[str] = PRELOAD) -> Iterator[None]:
    """Run a manager whose resources have their data in a folder, for this process and those that it starts.

    Its fork server imports the modules `preload`.
    """
    manager = RunManager(ctx=multiprocessing.get_context("spawn"), shutdown_timeout=CLOSE_SECONDS)
    manager.start(_initialise_manager, (folder, preload))
    authkey = multiprocessing.current_process().authkey
    os.environ[RUN_VARIABLE] = f"{authkey.hex()} {manager.address!s}"
    try:
        yield
    finally:
        del os.environ[RUN_VARIABLE]
        manager.shutdown()


def get_run() -> RunResources | None:
    """Return the resources of the run that this process belongs to; None outside a run, as in `bench/`."""
    variable = os.environ.get(RUN_VARIABLE)
    return _own_resources or (_connect(variable) if variable else None)


@cache
def _connect(variable: str) -> RunResources:
    key, _, address = variable.partition(" ")
    # File descriptors are passed between processes with the same key.
    multiprocessing.current_process().authkey = bytes.fromhex(key)
    manager = RunManager(address)
    manager.connect()
    # The proxy has the methods of `RunResources`.
    return cast(RunResources, manager.resources())  # type: ignore[attr-defined]


def get_shared(factory: Factory[T]) -> T:
    """Return a copy of the value that a function of a module creates once in a run. The value must be picklable."""
    run = get_run()
    assert run is not None, "no test run: start the test with pytest"
    value: T = pickle.loads(run.get_pickled(factory))
    return value
