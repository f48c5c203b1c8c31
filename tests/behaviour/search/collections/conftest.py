"""Each test runs on both databases and in every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import chassis
from hansei.search.v1 import collection_service_pb2_grpc

# A service imports it on first use, when it already listens: on a busy machine callers would wait for the import.
from services.search.adapters import qdrant as _qdrant  # noqa: F401
from services.search.bootstrap import build
from services.search.settings import SearchSettings
from tests.behaviour.search.collections.service import HYBRID, PGVECTOR, QDRANT, RunningSearch
from tests.support.policies import without_retries


@pytest.fixture(params=[HYBRID, QDRANT, PGVECTOR], ids=["hybrid", "qdrant", "pgvector"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def database_location(request: pytest.FixtureRequest, backend: Any, create_database: Callable[[], str]) -> str:
    """Return the location of the documents: with PGVECTOR on PostgreSQL, the database of their chunks."""
    location = create_database()
    if backend == PGVECTOR and location.startswith("postgresql"):
        return str(request.getfixturevalue("pgvector_location"))
    return location


@pytest.fixture
def pgvector_location(request: pytest.FixtureRequest, backend: Any) -> str:
    """Return an empty database of a server with pgvector; nothing for the other backends."""
    return str(request.getfixturevalue("pgvector_postgres").database()) if backend == PGVECTOR else ""


@pytest.fixture
def running(database_location: str, pgvector_location: str, backend: Any, tmp_path: Path) -> Callable[..., Any]:
    """Search on that database and with that backend; a second time it is a restart."""

    @asynccontextmanager
    async def serving(backend: Any = backend, **settings: Any) -> AsyncIterator[RunningSearch]:
        chosen = SearchSettings.model_validate(
            {
                "embedding_provider": "hashing",
                "search_database_url": database_location,
                "search_snapshot_dir": str(tmp_path / "snapshots"),
                "search_qdrant": str(tmp_path / "qdrant") if backend == QDRANT else "",
                "search_pgvector": pgvector_location,
                **settings,
            }
        )
        async with chassis.serve(lambda own: build(chosen, chassis.Peers({"curator": "self"}, own=own))) as served:
            client = chassis.Peers({"search": served.address}, policies=without_retries())
            try:
                yield RunningSearch(
                    collection_service_pb2_grpc.CollectionServiceStub(client.get_channel("search")), backend
                )
            finally:
                await client.close()

    return serving


@pytest.fixture
async def searching(running: Any) -> AsyncIterator[RunningSearch]:
    async with running() as served:
        await served.create()
        yield served
