"""A process that has imported hansei and forks: a start takes milliseconds, where imports alone take a second.

What a fork leaves out, and `tests/behaviour/system/test_starts.py` has, which starts each service by `python -m`: that
a start imports what it needs, no more; hashes of its own; as many threads for linear algebra as the machine has cores;
the last steps of an interpreter, after what is registered for its end.

It ends at the end of its stdin, and takes with it what it forked.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

# All of hansei and what its processes import later: loops that search loads or compiles, schemas, PostgreSQL, HTTP,
# metrics, models. `module:function` is called.
READY = (
    "allinone.bootstrap",
    "chassis.server.lifecycle",
    "gateway.http.app",
    "services.search.adapters.loops:load_loops",
    "services.validator.domain.bradley_terry",
    "alembic.command",
    "alembic.config",
    "cryptography.x509",
    "httpx",
    "langchain_openai",
    "opentelemetry.exporter.prometheus",
    "psycopg",
    "uvicorn",
)
LONGEST = 1 << 18
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """A process to be: a module run as `python -m` runs it, in a folder, with an environment and nothing besides."""

    module: str
    folder: str
    environment: Mapping[str, str]

    def to_bytes(self) -> bytes:
        return json.dumps(vars(self)).encode()

    @classmethod
    def of_bytes(cls, told: bytes) -> Order:
        return cls(**json.loads(told))


class Zygote:
    """Forks for who asks at a socket, and tells each how their process ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._children: dict[int, tuple[int, socket.socket]] = {}
        self._libc = ctypes.CDLL(None)
        self._pid = os.getpid()

    def next_order(self) -> Order | None:
        """In each process that was ordered, what it is to be; None in this one, when it is to end."""
        while True:
            ready = select.poll()
            for each in (0, self._listener.fileno(), *self._children):
                ready.register(each, select.POLLIN)
            for descriptor, _ in ready.poll():
                if descriptor in self._children:
                    self._tell_end(descriptor)
                elif descriptor == 0:
                    return None
                elif order := self._forked():
                    return order

    def _forked(self) -> Order | None:
        """In the child, what it is to be."""
        asked, _ = self._listener.accept()
        told, outputs, _, _ = socket.recv_fds(asked, LONGEST, 2)
        if not told:
            asked.close()
            return None
        order = Order.of_bytes(told)
        threads = os.listdir("/proc/self/task")
        if len(threads) > 1:
            raise RuntimeError(f"{len(threads)} threads: only a process with one can be forked safely")
        pid = os.fork()
        if not pid:
            asked.close()
            self._leave(outputs)
            return order
        for each in outputs:
            os.close(each)
        child = os.pidfd_open(pid)
        self._children[child] = pid, asked
        _told(asked, pid, child)
        return None

    def _tell_end(self, child: int) -> None:
        pid, asked = self._children.pop(child)
        _, status = os.waitpid(pid, 0)
        os.close(child)
        _told(asked, os.waitstatus_to_exitcode(status))
        asked.close()

    def _leave(self, outputs: list[int]) -> None:
        """Of what was this process's, keep the modules alone."""
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._pid:
            os._exit(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._listener.close()
        for _, asked in self._children.values():
            asked.close()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate([nothing, *outputs]):
            os.dup2(file, number)
        for each in os.listdir("/proc/self/fd"):
            if int(each) > 2:
                # The one of this listing is closed already.
                with suppress(OSError):
                    os.close(int(each))


def _told(asked: socket.socket, number: int, *descriptors: int) -> None:
    """Tell a number to who asked, if they are still there."""
    with suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(asked, [str(number).encode()], descriptors)


def run(order: Order) -> None:
    """Be the process that was ordered, as if it had been started."""
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    os.chdir(order.folder)
    sys.path[0], sys.argv[1:] = order.folder, []
    try:
        runpy.run_module(order.module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        status = ended.code or 0
    # Then an interpreter frees each object; here that would copy what all share, which takes longer than all the rest.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(descriptor: int, ready: list[str]) -> None:
    """Make ready what is named, and fork for who asks at a listening socket."""
    # Whoever interrupts the tests ends them, and the last of them ends this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ready:
        found = pkgutil.resolve_name(name)
        if ":" in name:
            found()
    # A collector that looks at an object writes to it, and so copies what all share.
    gc.collect()
    gc.freeze()
    if order := Zygote(socket.socket(fileno=descriptor)).next_order():
        run(order)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
