"""A playbook store on a real SQLite file, and short functions for frequent steps of tests."""

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
def revisions_seen() -> list[Revision]:
    """Return the revisions the store announced, in order."""
    return []


@pytest.fixture
async def store(database_url: str, revisions_seen: list[Revision]) -> AsyncIterator[SqlPlaybookStore]:
    announce: Callable[[Revision], None] = revisions_seen.append
    store = SqlPlaybookStore(database_url, on_commit=announce)
    await store.open()
    yield store
    await store.close()
