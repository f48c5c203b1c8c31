"""Ranks the bullets of a dataset page by page."""

from __future__ import annotations

from services.search.domain.bullet import Bullet
from services.search.usecases.pinned_rankings import Page, PinnedRankings, Place
from services.search.usecases.search_playbook import Answer, Ask, SearchPlaybook


class PagePlaybook:
    """Searches a playbook once and shows the ranking in pages (see `PinnedRankings`)."""

    def __init__(self, search: SearchPlaybook) -> None:
        self._search = search
        self._pinned: PinnedRankings[Bullet] = PinnedRankings()

    async def __call__(self, dataset: str, ask: Ask, min_revision: int, size: int, place: Place | None) -> Page[Bullet]:
        """A page. Raises what `SearchPlaybook` raises, `PageExpired`."""

        async def rank() -> Answer[Bullet]:
            (answer,) = await self._search(dataset, [ask], min_revision)
            return answer

        return await self._pinned.page(size, place, rank)
