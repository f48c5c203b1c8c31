"""Rankings that clients read page by page: all pages show the ranking that the first page began.

A ranking with further pages is cached. When it was evicted, or another replica gets the request of the next page, the
ranking is computed again. It is the same unless the index has changed; then the page is refused (`PageExpired`).
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from cachetools import LRUCache

from services.search.domain.collection_errors import PageExpired
from services.search.domain.query import ItemT, Results
from services.search.usecases.rank_entries import RankingResponse

MAX_CACHED_RESULTS = 100_000
"""Results cached over all rankings; each takes some hundred bytes."""


@dataclass(frozen=True, slots=True)
class PageCursor:
    """The start of a page: a ranking, the revision and the model it was computed with, and the results before it."""

    ranking_id: str
    revision: int
    model: str
    offset: int


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Some results of a response, and the start of the next page; None on the last page."""

    response: RankingResponse[ItemT]
    results: Results[ItemT]
    next_cursor: PageCursor | None


class PinnedRankings(Generic[ItemT]):
    """Caches rankings that have further pages, up to a number of results in total.

    A page ends before its items, measured by `count_bytes`, have more than `max_page_bytes`; it has at least one.
    """

    def __init__(
        self,
        max_results: int = MAX_CACHED_RESULTS,
        *,
        count_bytes: Callable[[ItemT], int] = lambda item: 0,
        max_page_bytes: int = 0,
    ) -> None:
        self._count_bytes = count_bytes
        self._max_page_bytes = max_page_bytes
        self._pinned: LRUCache[str, RankingResponse[ItemT]] = LRUCache(
            max_results, lambda response: min(len(response.ranking.results), max_results)
        )

    async def get_page(
        self, size: int, cursor: PageCursor | None, rank: Callable[[], Awaitable[RankingResponse[ItemT]]]
    ) -> Page[ItemT]:
        """Return the page at `cursor`, the first one for None; a `size` of 0 returns all results at once,
        unless they have too many bytes.

        Raises `PageExpired`, and the errors of `rank`.
        """
        if cursor is None:
            return self._cut_page("", 0, size, await rank())
        response = self._pinned.get(cursor.ranking_id)
        if response is None:
            response = await rank()
            if (response.revision, response.model) != (cursor.revision, cursor.model):
                raise PageExpired
        return self._cut_page(cursor.ranking_id, cursor.offset, size, response)

    def _cut_page(self, ranking_id: str, start: int, size: int, response: RankingResponse[ItemT]) -> Page[ItemT]:
        """Return the page from `start`; a ranking with further pages is pinned, and without an id gets one."""
        results = response.ranking.results
        end = self._cut_by_bytes(results.items, start, min(start + size, len(results)) if size else len(results))
        if end >= len(results):
            return Page(response, results[start:] if start else results, None)
        ranking_id = ranking_id or secrets.token_hex(8)
        self._pinned[ranking_id] = response
        return Page(response, results[start:end], PageCursor(ranking_id, response.revision, response.model, end))

    def _cut_by_bytes(self, items: Sequence[ItemT], start: int, end: int) -> int:
        """Return the end of the page from `start` that is not larger than a page may be."""
        total = 0
        for position in range(start, end):
            total += self._count_bytes(items[position])
            if total > self._max_page_bytes and position > start:
                return position
        return end
