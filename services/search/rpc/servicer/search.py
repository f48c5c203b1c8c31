"""The gRPC face of search: messages in, use case, messages out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import search_service_pb2 as pb
from hansei.search.v1 import search_service_pb2_grpc
from libs.embedding.embedder import TextEmbedder
from services.search.domain.bullet import Bullet
from services.search.rpc.convert import search as convert
from services.search.rpc.servicer.pages import place_in_ranking
from services.search.usecases.page_playbook import PagePlaybook
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.rank_bullets import RankBullets
from services.search.usecases.search_playbook import SearchPlaybook

BULLETS_AT_ONCE = 200


class SearchServicer(search_service_pb2_grpc.SearchServiceServicer):
    """Ranks bullets of playbooks."""

    def __init__(
        self,
        search: SearchPlaybook,
        page: PagePlaybook,
        rank_bullets: RankBullets,
        indexes: PlaybookIndexes,
        embed: TextEmbedder,
        tokenizer: str,
        read_bullet: Callable[[playbook_pb2.Bullet], Bullet],
    ) -> None:
        self._search = search
        self._page = page
        self._rank_bullets = rank_bullets
        self._indexes = indexes
        self._embed = embed
        self._tokenizer = tokenizer
        self._read_bullet = read_bullet

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        """Rank the bullets of a dataset."""
        ask = convert.ask_from(request.query)
        if not request.page_size:
            (answer,) = await self._search(request.dataset, [ask], request.min_revision)
            return convert.response_message(answer)
        place = place_in_ranking(request)
        page = await self._page(request.dataset, ask, request.min_revision, request.page_size, place)
        return convert.page_message(request, page)

    async def BatchSearch(self, request: pb.BatchSearchRequest, context: Any) -> pb.BatchSearchResponse:
        """Many queries over one dataset at one revision."""
        asks = [convert.ask_from(query) for query in request.queries]
        answers = await self._search(request.dataset, asks, request.min_revision)
        return pb.BatchSearchResponse(responses=[convert.response_message(answer) for answer in answers])

    async def RankBullets(self, request: pb.RankBulletsRequest, context: Any) -> pb.RankBulletsResponse:
        """Ranks the bullets that the request itself carries."""
        bullets: list[Bullet] = []
        for message in request.bullets:
            bullets.append(self._read_bullet(message))
            if len(bullets) % BULLETS_AT_ONCE == 0:
                # Ten thousand bullets take a while to read; others get their turn meanwhile.
                await asyncio.sleep(0)
        ranking = await self._rank_bullets(convert.ask_from(request.query), bullets)
        response = pb.RankBulletsResponse(embedding_model=self._embed.model.model_id)
        convert.write_results(response.results, ranking.results)
        return response

    async def GetIndexStatus(self, request: pb.GetIndexStatusRequest, context: Any) -> pb.GetIndexStatusResponse:
        """Says how far the index of a dataset is."""
        playbook = self._indexes.of(request.dataset)
        response = pb.GetIndexStatusResponse(
            revision=max(playbook.revision, 0),
            bullets=playbook.bullets,
            embedding_model=playbook.embed.model.model_id,
            dimension=playbook.view.dimension if playbook.view else 0,
            tokenizer=self._tokenizer,
            feed_error=str(playbook.error) if playbook.error else "",
        )
        if playbook.heard_at is not None:
            response.heard_at.FromDatetime(playbook.heard_at)
        return response

    async def Embed(self, request: pb.EmbedRequest, context: Any) -> pb.EmbedResponse:
        """Turns texts into vectors with the service's embedder."""
        texts = list(request.texts)
        for_queries = request.purpose == pb.EMBED_PURPOSE_QUERY
        vectors = await (self._embed.embed_queries(texts) if for_queries else self._embed.embed_documents(texts))
        model = self._embed.model.model_id
        return pb.EmbedResponse(embeddings=[convert.embedding_message(vector, model) for vector in vectors])
