"""The gRPC servicer of search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import search_service_pb2 as pb
from hansei.search.v1 import search_service_pb2_grpc
from libs.embedding.embedder import TextEmbedder
from services.search.domain.bullet import IndexedBullet
from services.search.rpc.convert import search as convert
from services.search.rpc.convert.pages import decode_cursor
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.rank_bullets import RankBullets
from services.search.usecases.search_playbook import SearchPlaybook

BULLETS_AT_ONCE = 200


class SearchServicer(search_service_pb2_grpc.SearchServiceServicer):
    """Ranks bullets of playbooks."""

    def __init__(
        self,
        search: SearchPlaybook,
        rank_bullets: RankBullets,
        indexes: PlaybookIndexes,
        embedder: TextEmbedder,
        tokenizer: str,
        decode_bullet: Callable[[playbook_pb2.Bullet], IndexedBullet],
        budget_tokens: int,
    ) -> None:
        self._search = search
        self._rank_bullets = rank_bullets
        self._indexes = indexes
        self._embedder = embedder
        self._tokenizer = tokenizer
        self._decode_bullet = decode_bullet
        self._budget_tokens = budget_tokens

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        """Rank the bullets of a dataset."""
        page = await self._search.get_page(
            request.dataset,
            convert.decode_query(request.query, self._budget_tokens),
            request.min_revision,
            request.page_size,
            decode_cursor(request),
            allow_missing=request.allow_missing,
        )
        return convert.encode_page(request, page)

    async def BatchSearch(self, request: pb.BatchSearchRequest, context: Any) -> pb.BatchSearchResponse:
        """Rank the bullets of a dataset for many queries at one revision."""
        queries = [convert.decode_query(query, self._budget_tokens) for query in request.queries]
        responses = await self._search(
            request.dataset, queries, request.min_revision, allow_missing=request.allow_missing
        )
        return pb.BatchSearchResponse(responses=[convert.encode_response(response) for response in responses])

    async def RankBullets(self, request: pb.RankBulletsRequest, context: Any) -> pb.RankBulletsResponse:
        """Rank the bullets of the request."""
        bullets: list[IndexedBullet] = []
        for message in request.bullets:
            bullets.append(self._decode_bullet(message))
            if len(bullets) % BULLETS_AT_ONCE == 0:
                # Ten thousand bullets take a while: other calls run in between.
                await asyncio.sleep(0)
        ranking = await self._rank_bullets(convert.decode_query(request.query, self._budget_tokens), bullets)
        response = pb.RankBulletsResponse(embedding_model=self._embedder.model.model_id, alpha=ranking.alpha)
        convert.write_results(response.results, ranking.results)
        return response

    async def GetIndexStatus(self, request: pb.GetIndexStatusRequest, context: Any) -> pb.GetIndexStatusResponse:
        """Return the state of the index of a dataset."""
        index = self._indexes.get_index(request.dataset)
        if not request.allow_missing:
            await index.require_dataset()
        response = pb.GetIndexStatusResponse(
            revision=max(index.revision, 0),
            bullets=index.bullets,
            embedding_model=index.embedder.model.model_id,
            dimension=index.view.dimension if index.view else 0,
            tokenizer=self._tokenizer,
            feed_error=str(index.error) if index.error else "",
        )
        if index.last_event_at is not None:
            response.last_event_at.FromDatetime(index.last_event_at)
        return response

    async def Embed(self, request: pb.EmbedRequest, context: Any) -> pb.EmbedResponse:
        """Return the vectors of texts by the service's embedding model."""
        texts = list(request.texts)
        is_query = request.purpose == pb.EMBED_PURPOSE_QUERY
        vectors = await (self._embedder.embed_queries(texts) if is_query else self._embedder.embed_documents(texts))
        model = self._embedder.model.model_id
        return pb.EmbedResponse(embeddings=[convert.encode_vector(vector, model) for vector in vectors])
