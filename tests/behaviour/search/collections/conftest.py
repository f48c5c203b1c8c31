"""Each test runs on both databases and in both backends."""

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
from tests.behaviour.search.collections.service import HYBRID, QDRANT, RunningSearch
from tests.support.policies import without_retries


@pytest.fixture(params=[HYBRID, QDRANT], ids=["hybrid", "qdrant"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def running(database_location: str, backend: Any, tmp_path: Path) -> Callable[..., Any]:
    """Search on that database and with that backend; a second time it is a restart."""

    @asynccontextmanager
    async def serving(backend: Any = backend, **settings: Any) -> AsyncIterator[RunningSearch]:
        chosen = SearchSettings.model_validate(
            {
                "embedding_provider": "hashing",
                "search_database_url": database_location,
                "search_snapshot_dir": str(tmp_path / "snapshots"),
                "search_qdrant": str(tmp_path / "qdrant") if backend == QDRANT else "",
                **settings,
            }
        )
        async with chassis.serve(
            lambda address: build(chosen, chassis.Peers({"curator": "self"}, own_address=address))
        ) as served:
            client = chassis.Peers({"search": served.address}, policies=without_retries())
            try:
                yield RunningSearch(
                    collection_service_pb2_grpc.CollectionServiceStub(client.channel("search")), backend
                )
            finally:
                await client.close()

    return serving


@pytest.fixture
async def searching(running: Any) -> AsyncIterator[RunningSearch]:
    async with running() as served:
        await served.create()
        yield served
