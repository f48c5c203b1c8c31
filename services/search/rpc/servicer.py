"""The gRPC face of search: messages in, use case, messages out."""

from __future__ import annotations

import asyncio
from typing import Any

from hansei.search.v1 import search_service_pb2 as pb
from hansei.search.v1 import search_service_pb2_grpc
from services.search.domain.bullet import Bullet
from services.search.rpc import convert
from services.search.rpc.pages import digest_of, place_in_ranking
from services.search.usecases.embed_texts import EmbedTexts
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
        embed: EmbedTexts,
        tokenizer: str,
    ) -> None:
        self._search = search
        self._page = page
        self._rank_bullets = rank_bullets
        self._indexes = indexes
        self._embed = embed
        self._tokenizer = tokenizer

    async def Search(self, request: pb.SearchRequest, context: Any) -> Any:
        """Ranks the bullets of a dataset; the answer is a `SearchResponse`, mostly in its wire form."""
        ask = convert.ask_from(request.query)
        if not request.page_size:
            dataset, min_revision = request.dataset, request.min_revision
            answer = self._search.at_once(dataset, ask, min_revision)
            if answer is None:
                (answer,) = await self._search(dataset, [ask], min_revision)
            return convert.response_wire(answer)
        digest = digest_of(request.dataset, request.query)
        place = place_in_ranking(request.page_token)
        page = await self._page(request.dataset, ask, request.min_revision, digest, request.page_size, place)
        return convert.page_message(page)

    async def BatchSearch(self, request: pb.BatchSearchRequest, context: Any) -> pb.BatchSearchResponse:
        """Many queries over one dataset at one revision."""
        asks = [convert.ask_from(query) for query in request.queries]
        answers = await self._search(request.dataset, asks, request.min_revision)
        return pb.BatchSearchResponse(responses=[convert.response_message(answer) for answer in answers])

    async def RankBullets(self, request: pb.RankBulletsRequest, context: Any) -> pb.RankBulletsResponse:
        """Ranks the bullets that the request itself carries."""
        bullets: list[Bullet] = []
        for message in request.bullets:
            bullets.append(convert.bullet_from(message))
            if len(bullets) % BULLETS_AT_ONCE == 0:
                # Ten thousand bullets take a while to read; others get their turn meanwhile.
                await asyncio.sleep(0)
        ranking = await self._rank_bullets(convert.ask_from(request.query), bullets)
        return pb.RankBulletsResponse(
            results=[convert.scored_message(scored) for scored in ranking.results],
            embedding_model=self._embed.embedder.model,
        )

    async def GetIndexStatus(self, request: pb.GetIndexStatusRequest, context: Any) -> pb.GetIndexStatusResponse:
        """Says how far the index of a dataset is."""
        playbook = self._indexes.of(request.dataset)
        response = pb.GetIndexStatusResponse(
            revision=max(playbook.revision, 0),
            bullets=playbook.bullets,
            embedding_model=playbook.embed.embedder.model,
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
        vectors = await (self._embed.queries(texts) if for_queries else self._embed.documents(texts))
        model = self._embed.embedder.model
        return pb.EmbedResponse(embeddings=[convert.embedding_message(vector, model) for vector in vectors])
