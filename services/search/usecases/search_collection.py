"""Ranks the chunks of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.search.domain.collection import ChunkRef, Collection, Found
from services.search.domain.collection_errors import CollectionNotFound, EmbedderChanged
from services.search.domain.query import Scored
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.embedders import Embedders
from services.search.usecases.pinned_rankings import Page, PinnedRankings, Place
from services.search.usecases.ports import CollectionStore
from services.search.usecases.search_playbook import Answer, Ask, RankEntries

ATTEMPTS = 3
"""How often a search begins again because what it found was replaced before its text could be read."""


@dataclass(frozen=True, slots=True)
class FoundChunks:
    """A page of chunks with their text, best first."""

    page: Page[ChunkRef]
    results: Sequence[tuple[Scored[ChunkRef], Found]]


class SearchCollection:
    """Searches what the database holds at that moment, whoever wrote it."""

    def __init__(
        self, store: CollectionStore, indexes: CollectionIndexes, embedders: Embedders, rank: RankEntries
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._embedders = embedders
        self._rank = rank
        self._pinned: PinnedRankings[ChunkRef] = PinnedRankings()

    async def __call__(self, name: str, ask: Ask, size: int = 0, place: Place | None = None) -> FoundChunks:
        """The best chunks; a page of them if `size` is not 0 (see `PinnedRankings`).

        Raises `CollectionNotFound`, `EmbedderChanged`, `EmbeddingFailed`, `WrongVector`, `BackendUnreachable`,
        `PageExpired`, and what the store raises.
        """
        for attempt in range(1, ATTEMPTS + 1):
            page = await self._pinned.page(size, place, lambda: self._ranked(name, ask))
            collection = await self._store.get(name)
            texts = await self._store.passages(collection, [scored.item for scored in page.results])
            found = [(scored, texts[scored.item]) for scored in page.results if scored.item in texts]
            whole = len(found) == len(page.results) and page.answer.model == collection.model
            # What a later page has lost was deleted or replaced since the first.
            if whole or place is not None or attempt == ATTEMPTS:
                break
        return FoundChunks(page, found)

    async def _ranked(self, name: str, ask: Ask) -> Answer[ChunkRef]:
        collection = await self._store.get(name)
        try:
            return await self._answer(collection, ask)
        except CollectionNotFound:
            # Vectors of another model may have taken its place; if it is gone, this says so.
            return await self._answer(await self._store.get(name), ask)

    async def _answer(self, collection: Collection, ask: Ask) -> Answer[ChunkRef]:
        embed = await self._embedders.of(collection.model)
        if embed is None:
            raise EmbedderChanged(collection.name, collection.model, self._embedders.model)
        index = await self._indexes.at(collection)
        revision = index.revision
        return Answer(await index.search(self._rank.by(embed), ask), revision, collection.model)
