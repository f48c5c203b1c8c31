"""An empty database in each of the two engines, for tests of what a service keeps there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviour.postgres_server import PostgresServer, binaries_or_skip, postgres_server

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server(binaries_or_skip()) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is: the name of a file, or a URL."""
    if request.param == "sqlite":
        return str(tmp_path / "some.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database(f"place{next(_numbers)}")
