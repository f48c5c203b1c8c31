"""Chunks in Qdrant's own engine: concurrent writes and searches. Results are tested in tests/behaviour."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient

from libs.embedding.terms import tokenize_mixed
from services.search.adapters import qdrant as adapter
from services.search.adapters.qdrant import Qdrant, QdrantChunks
from services.search.domain.bm25 import LUCENE
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, Collection, DocumentRevision
from services.search.domain.collection_errors import CollectionNotFound
from services.search.domain.fusion import Fusion
from services.search.domain.query import Ranking, SearchQuery
from services.search.usecases.rank_entries import PreparedQuery, RankingRequest

MADE = datetime(2026, 1, 2, tzinfo=UTC)
COLLECTION = Collection(1, "key", "c", Backend.QDRANT, Chunking(100, 10), "model", MADE, 2, 1, 1, 1)


class ClearingWhileItEmbeds:
    """Ranks nothing; while the query is embedded the chunks go."""

    def __init__(self, chunks: QdrantChunks) -> None:
        self._chunks = chunks

    async def __call__(self, view: Any, requests: Sequence[RankingRequest]) -> list[Ranking[Any]]:
        return [Ranking() for _ in requests]

    async def prepare(self, request: RankingRequest, dimension: int) -> PreparedQuery:
        await self._chunks.clear()
        return PreparedQuery(tokenize_mixed(request.query.query_text), np.array([1.0, 0.0], np.float32), Fusion(0.5))


@pytest.fixture
async def chunks(tmp_path: Path) -> AsyncIterator[QdrantChunks]:
    qdrant = Qdrant(str(tmp_path / "qdrant"))
    chunks = QdrantChunks(COLLECTION, qdrant, tokenize_mixed, LUCENE)
    await chunks.apply(
        [DocumentRevision("a", 1, (), "some text", [TextSpan(0, 9)], np.array([[0.6, 0.8]], np.float32))]
    )
    yield chunks
    await qdrant.close()


async def test_chunks_that_are_deleted_during_a_search_are_not_found(chunks: QdrantChunks) -> None:
    rank: Any = ClearingWhileItEmbeds(chunks)
    with pytest.raises(CollectionNotFound):
        await chunks.search(rank, RankingRequest(SearchQuery("text", min_confidence=0.0)))
    assert not (await chunks.search(rank, RankingRequest(SearchQuery("text", min_confidence=0.0)))).results


async def test_the_first_jobs_of_a_server_share_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    class SlowClient(QdrantClient):
        def __init__(self, **options: Any) -> None:
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)  # until a second thread connects, too
            super().__init__(**options)

    monkeypatch.setattr(adapter, "QdrantClient", SlowClient)
    qdrant = Qdrant("http://127.0.0.1:1")
    try:
        first, second = await asyncio.gather(*(qdrant.run(lambda client: client) for _ in range(2)))
        assert first is second
    finally:
        await qdrant.close()
