"""Ranks the bullets of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.search.domain.bullet import IndexedBullet
from services.search.usecases.fit_budget import fit_budget
from services.search.usecases.pinned_rankings import Page, PageCursor, PinnedRankings
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.rank_entries import RankEntries, RankingRequest, RankingResponse

# The rest of the deadline is for the error message of a call that waited without a result.
WAITING_SHARE = 0.9


class SearchPlaybook:
    """Ranks bullets of playbooks that are followed (S-01 to S-35)."""

    def __init__(
        self,
        indexes: PlaybookIndexes,
        rank: RankEntries,
        remaining: Callable[[], float | None] = lambda: None,
        *,
        max_page_bytes: int = 8 * 1024 * 1024,
    ) -> None:
        self._indexes = indexes
        self._rank = rank
        self._remaining = remaining
        self._pinned: PinnedRankings[IndexedBullet] = PinnedRankings(
            count_bytes=_count_bytes, max_page_bytes=max_page_bytes
        )

    async def __call__(
        self, dataset: str, requests: Sequence[RankingRequest], min_revision: int = 0, *, allow_missing: bool = False
    ) -> list[RankingResponse[IndexedBullet]]:
        """Return one response a request, all at one revision, which is at least `min_revision`.

        Waits for that revision within the caller's deadline. A dataset without commits gives no results, and so does
        one that does not exist if `allow_missing` (G-36). Raises `NotFound`, `EmbeddingFailed`, `WrongVector`,
        `PlaybookUnreachable`, `RevisionNotReached`.
        """
        index = self._indexes.get_index(dataset)
        if index.revision >= min_revision:
            view = index.view
        else:
            left = self._remaining()
            view = await index.wait_for_revision(min_revision, None if left is None else left * WAITING_SHARE)
        if not allow_missing:
            await index.require_dataset()
        revision = view.revision if view else index.revision
        rank = self._rank.with_embedder(index.embedder)
        return [
            RankingResponse(
                fit_budget(ranking, request.budget_tokens),
                revision,
                rank.model,
                rank.compute_similarity_limit(request.query.query_text),
            )
            for request, ranking in zip(requests, await rank(view, requests), strict=True)
        ]

    async def get_page(
        self,
        dataset: str,
        request: RankingRequest,
        min_revision: int,
        size: int,
        cursor: PageCursor | None,
        *,
        allow_missing: bool = False,
    ) -> Page[IndexedBullet]:
        """Return a page of a ranking (see `PinnedRankings`). Raises `PageExpired`, and the errors of a search."""

        async def rank() -> RankingResponse[IndexedBullet]:
            (response,) = await self(dataset, [request], min_revision, allow_missing=allow_missing)
            return response

        return await self._pinned.get_page(size, cursor, rank)


def _count_bytes(bullet: IndexedBullet) -> int:
    return len(bullet.serialized_form)
