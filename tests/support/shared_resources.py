"""What all tests of a run use together, whichever process of it asks first, until the last of them has ended.

The first that asks starts a keeper, a process that makes it. Who uses it holds a shared lock on a file, and the keeper
waits for that file alone: the system lets go of what a process held however it ends, so nothing outlives a run.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
# Where Python finds the code, as PYTHONPATH.
CODE = os.pathsep.join(str(ROOT / part) for part in ("", "stubs", "sdk"))
# A variable of the tests: the folder of their run.
RUN = "TESTS_RUN"
T = TypeVar("T")
Make = Callable[[Path], AbstractContextManager[T]]

_kept = ExitStack()
_keepers: list[subprocess.Popen[bytes]] = []


@contextmanager
def shared(make: Make[T], folder: Path) -> Iterator[T]:
    """What a function of a module makes in a folder for data, once for all who ask with the same `folder`.

    Each process has a copy: it must stand being pickled. It ends when nobody has it any more.
    """
    place = folder / f"{make.__module__}.{make.__qualname__}"
    place.mkdir(exist_ok=True)
    with (place / "users").open("w") as users, (place / "first").open("w") as first:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(first, fcntl.LOCK_EX)
        value = place / "value"
        keeper = None if value.exists() else _started(make, place)
        fcntl.flock(first, fcntl.LOCK_UN)
        if keeper is not None:
            _keepers.append(keeper)
        yield pickle.loads(value.read_bytes())


def wait_for_keepers() -> None:
    """Wait until the keepers that this process started have ended.

    Call it when this process uses nothing shared any more: two processes that wait for a keeper of the other, and use
    what the other waits for, would wait for ever.
    """
    while _keepers:
        _keepers.pop().wait()


@contextmanager
def one_run(folder: Path) -> Iterator[None]:
    """Until the block ends there is what is `of_the_run`, in this process and in those that it starts."""
    os.environ[RUN] = str(folder)
    try:
        with _kept:
            yield
    finally:
        os.environ.pop(RUN, None)
        _of.cache_clear()


def of_the_run(make: Make[T]) -> T | None:
    """What all processes of a run share from when the first asks for it; None where there is no run, as in `bench/`."""
    folder = os.environ.get(RUN)
    return _of(make, folder) if folder else None


@cache
def _of(make: Make[T], folder: str) -> T:
    """Kept until this process has no more part in the run, or ends."""
    return _kept.enter_context(shared(make, Path(folder)))


def _started(make: object, place: Path) -> subprocess.Popen[bytes]:
    """The process that keeps it, once it is there."""
    command = [sys.executable, "-m", "tests.support.shared_resources", str(place)]
    environment = {**os.environ, "PYTHONPATH": CODE}
    (place / "make").write_bytes(pickle.dumps(make))
    with (place / "log").open("ab") as log:
        keeper = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log)
    assert keeper.stdout is not None
    with keeper.stdout as told:
        if not told.readline():
            keeper.wait()
            raise AssertionError(f"{make} failed:\n{(place / 'log').read_text(errors='replace')[-4000:]}")
    return keeper


def _keep(place: Path) -> None:
    """Make it, say that it is there, and end it after its last user."""
    # Who ends all processes of the tests at once, as `timeout` does, ends what this one made, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    make = pickle.loads((place / "make").read_bytes())
    data = Path(tempfile.mkdtemp(prefix="data-", dir=place))
    value = place / "value"
    with (place / "users").open("w") as users, make(data) as made:
        value.with_suffix(".new").write_bytes(pickle.dumps(made))
        value.with_suffix(".new").rename(value)
        os.write(1, b"there\n")
        fcntl.flock(users, fcntl.LOCK_EX)
        value.unlink()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
