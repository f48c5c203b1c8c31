"""Ranks the chunks of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.search.domain.collection import ChunkRef, Collection, Passage
from services.search.domain.collection_errors import CollectionNotFound
from services.search.domain.query import ScoredItem
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.embedders import Embedders
from services.search.usecases.pinned_rankings import Page, PageCursor, PinnedRankings
from services.search.usecases.ports import CollectionStore
from services.search.usecases.rank_entries import RankEntries, RankingRequest, RankingResponse

ATTEMPTS = 3
"""Attempts of a search whose chunks were replaced before their text was read."""


@dataclass(frozen=True, slots=True)
class FoundChunks:
    """A page of chunks with their text, best first."""

    page: Page[ChunkRef]
    results: Sequence[tuple[ScoredItem[ChunkRef], Passage]]


class SearchCollection:
    """Searches the documents that the database holds at that moment, whichever replica wrote them."""

    def __init__(
        self, store: CollectionStore, indexes: CollectionIndexes, embedders: Embedders, rank: RankEntries
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._embedders = embedders
        self._rank = rank
        self._pinned: PinnedRankings[ChunkRef] = PinnedRankings()

    async def __call__(
        self, name: str, request: RankingRequest, size: int = 0, cursor: PageCursor | None = None
    ) -> FoundChunks:
        """Return the best chunks; a page of them if `size` is not 0 (see `PinnedRankings`).

        Raises `CollectionNotFound`, `EmbedderChanged`, `EmbeddingFailed`, `WrongVector`, `BackendUnreachable`,
        `PageExpired`, and the errors of the store.
        """
        for attempt in range(1, ATTEMPTS + 1):
            page = await self._pinned.get_page(size, cursor, lambda: self._search(name, request))
            collection = await self._store.get(name)
            passages = await self._store.read_passages(collection, [scored.item for scored in page.results])
            results = [(scored, passages[scored.item]) for scored in page.results if scored.item in passages]
            complete = len(results) == len(page.results) and page.response.model == collection.model
            # A later page stays incomplete: its missing chunks were replaced since the first page.
            if complete or cursor is not None or attempt == ATTEMPTS:
                break
        return FoundChunks(page, results)

    async def _search(self, name: str, request: RankingRequest) -> RankingResponse[ChunkRef]:
        collection = await self._store.get(name)
        try:
            return await self._search_index(collection, request)
        except CollectionNotFound:
            # A cut-over may have replaced the collection; if it was deleted, this raises again.
            return await self._search_index(await self._store.get(name), request)

    async def _search_index(self, collection: Collection, request: RankingRequest) -> RankingResponse[ChunkRef]:
        embedder = await self._embedders.get_for(collection)
        index = await self._indexes.get_index(collection)
        revision = index.revision
        ranking = await index.search(self._rank.with_embedder(embedder), request)
        return RankingResponse(ranking, revision, collection.model)
