"""Search over gRPC."""

from __future__ import annotations

import hashlib
from typing import Any

from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from services.evidence.usecases.ports import RankedBullet, RankedBullets, RecallQuery

VERSION_DIGITS = 16


class GrpcBulletSearch:
    """Ranks bullets by the search service. `channel` is connected to it."""

    def __init__(self, channel: Any) -> None:
        self._search = search_service_pb2_grpc.SearchServiceStub(channel)

    async def rank(self, query: RecallQuery) -> RankedBullets:
        """Return the best bullets. Raises `HanseiError`."""
        request = search_service_pb2.SearchRequest(
            dataset=query.dataset,
            query=search_pb2.SearchQuery(
                query_text=query.query_text, top_k=query.top_k, budget_tokens=0 if query.top_k is None else None
            ),
            min_revision=query.min_revision,
            allow_missing=query.allow_missing,
        )
        response = await self._search.Search(request)
        bullets = [
            RankedBullet(result.bullet.id, compute_text_version(result.bullet.content), result)
            for result in response.results
        ]
        return RankedBullets(bullets, response.revision)


def compute_text_version(text: str) -> str:
    """Return the version of a text, 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:VERSION_DIGITS]
