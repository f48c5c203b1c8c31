"""What all tests with sockets share: a running hansei in each of its forms, and a PostgreSQL, started once each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import systems
from tests.support.postgres_server import PostgresServer, any_server, binaries_or_skip, postgres_server
from tests.support.shared_resources import one_run, shared, wait_for_keepers


def pytest_unconfigure() -> None:
    """Wait for what this process started, after its last fixture has ended."""
    wait_for_keepers()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run of the tests have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session", autouse=True)
def of_one_run(run_folder: Path) -> Iterator[None]:
    """What needs no name is shared, too: the process that others are forked from, and an empty PostgreSQL."""
    with one_run(run_folder):
        yield


@pytest.fixture(scope="session")
def running(run_folder: Path) -> Iterator[Callable[[str], systems.System]]:
    """Gives a form of hansei, started when it is first asked for and kept until all tests are done.

    Tests of other processes use it at the same time: it is not for those that kill, fill or count the whole of it.
    """
    found: dict[str, systems.System] = {}
    with ExitStack() as all_forms:

        def form(name: str) -> systems.System:
            if name not in found:
                if name in systems.ON_POSTGRES:
                    binaries_or_skip()
                found[name] = all_forms.enter_context(shared(systems.FORMS[name], run_folder))
            return found[name]

        yield form


@pytest.fixture(scope="module", params=sorted(systems.FORMS))
def system(request: pytest.FixtureRequest, running: Callable[[str], systems.System]) -> systems.System:
    """A running hansei, offline. Tests that take it run against every form; each uses datasets of its own."""
    return running(request.param)


@pytest.fixture(scope="session")
def postgres(run_folder: Path) -> Iterator[PostgresServer]:
    """A server for databases of one's own. Who stops it takes `lone_postgres`."""
    binaries_or_skip()
    with shared(any_server, run_folder) as server:
        yield server


@pytest.fixture(scope="module")
def lone_postgres() -> Iterator[PostgresServer]:
    """A server that the tests of one file may stop and start."""
    with postgres_server(binaries_or_skip()) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives places of empty databases, all in one of the two engines: names of files, or URLs."""
    if request.param == "sqlite":
        numbers = itertools.count(1)
        return lambda: str(tmp_path / f"{next(numbers)}.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database


@pytest.fixture
def place(new_place: Callable[[], str]) -> str:
    """Where an empty database is: the name of a file, or a URL."""
    return new_place()
