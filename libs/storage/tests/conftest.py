"""A database of each engine with a few tables, as a service has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from libs.storage.database import Database
from libs.storage.migrations import Migrations
from libs.storage.tests.tables import migrations_of
from tests.conftest import create_database, database_location, postgres

__all__ = ["create_database", "database_location", "postgres"]

OpenDatabase = Callable[[], Database]


@pytest.fixture
def migrations(tmp_path: Path) -> Migrations:
    """Return the migrations that make the tables of these tests."""
    return migrations_of(tmp_path / "migrations")


@pytest.fixture
async def database(database_location: str, migrations: Migrations) -> AsyncIterator[Database]:
    """Yield an open database."""
    opened = Database(database_location, migrations, service="test", store="test store")
    await opened.open()
    yield opened
    await opened.close()
