"""A playbook store on a real SQLite file, and short names for what tests say often."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.log import Revision


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'playbooks' / 'hansei.db'}"


@pytest.fixture
def committed() -> list[Revision]:
    """The revisions the store announced, in order."""
    return []


@pytest.fixture
async def store(database_url: str, committed: list[Revision]) -> AsyncIterator[SqlPlaybookStore]:
    announce: Callable[[Revision], None] = committed.append
    store = SqlPlaybookStore(database_url, on_commit=announce)
    await store.open()
    yield store
    await store.close()
