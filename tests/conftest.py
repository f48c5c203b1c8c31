"""Fixtures of all tests with sockets: a running hansei in each of its forms, and a PostgreSQL, started once each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import systems
from tests.support.postgres_server import (
    PostgresServer,
    any_server,
    find_postgres_programs_or_skip,
    pgvector_package_or_skip,
    pgvector_server,
    postgres_server,
)
from tests.support.shared_resources import get_shared


@pytest.fixture(scope="session")
def running() -> Callable[[str], systems.System]:
    """Return a function that returns the shared system of a form, which is started on first use.

    Tests of other processes use it at the same time: a test that kills, fills or counts the whole of it needs its own.
    """

    def get_system(form: str) -> systems.System:
        if form in systems.ON_POSTGRES:
            find_postgres_programs_or_skip()
        return get_shared(systems.FORMS[form])

    return get_system


@pytest.fixture(scope="module", params=sorted(systems.FORMS))
def system(request: pytest.FixtureRequest, running: Callable[[str], systems.System]) -> systems.System:
    """Return a running hansei, offline. Tests that take it run against every form; each uses datasets of its own."""
    return running(request.param)


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    """Return the shared PostgreSQL, where each test has databases of its own. `lone_postgres` may be stopped."""
    find_postgres_programs_or_skip()
    return get_shared(any_server)


@pytest.fixture(scope="session")
def pgvector_postgres() -> PostgresServer:
    """Return the shared PostgreSQL with pgvector, where each test has databases of its own."""
    pgvector_package_or_skip()
    return get_shared(pgvector_server)


@pytest.fixture(scope="module")
def lone_postgres() -> Iterator[PostgresServer]:
    """Run a server that the tests of one file may stop and start."""
    with postgres_server(find_postgres_programs_or_skip()) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def create_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that creates empty databases of one engine, and returns names of files, or URLs."""
    if request.param == "sqlite":
        numbers = itertools.count(1)
        return lambda: str(tmp_path / f"{next(numbers)}.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database


@pytest.fixture
def database_location(create_database: Callable[[], str]) -> str:
    """Return the location of an empty database: the name of a file, or a URL."""
    return create_database()
