"""Ranks bullets that are part of the request; nothing of them is stored (S-36)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from services.search.domain.bullet import IndexedBullet
from services.search.domain.entry import create_bullet_entry
from services.search.domain.query import CandidateFilter, Ranking
from services.search.usecases.fit_budget import fit_budget
from services.search.usecases.ports import SearchIndex
from services.search.usecases.rank_entries import RankEntries, RankingRequest


class RankBullets:
    """Ranks with a temporary index, so that the same code ranks bullets of requests and of playbooks."""

    def __init__(
        self,
        embedder: TextEmbedder,
        rank: RankEntries,
        create_index: Callable[[int], SearchIndex[IndexedBullet]],
        pool: CpuPool,
    ) -> None:
        self._embedder = embedder
        self._rank = rank
        self._create_index = create_index
        self._pool = pool

    async def __call__(self, request: RankingRequest, bullets: Sequence[IndexedBullet]) -> Ranking[IndexedBullet]:
        """Return the bullets, best first, ties in their order; no embedding call without candidates (S-12).

        Bullets may share an id. Raises `EmbeddingFailed` (S-37), `WrongVector`.
        """
        candidates = filter_bullets(bullets, request.query.filter)
        if not candidates:
            return Ranking()
        vectors = await self._embedder.embed_documents([bullet.searchable_text for bullet in candidates])
        entries = [create_bullet_entry(bullet)._replace(id=str(row)) for row, bullet in enumerate(candidates)]
        view = await self._pool.run(self._create_index(vectors.shape[1]).apply, entries, vectors)
        (ranking,) = await self._rank(view, [request])
        return fit_budget(ranking, request.budget_tokens)


def filter_bullets(bullets: Sequence[IndexedBullet], admitted: CandidateFilter) -> list[IndexedBullet]:
    """Return the bullets that a filter admits, in playbook order (S-09, S-10, S-13)."""
    return [
        bullet
        for bullet in bullets
        if (not admitted.sections or bullet.section in admitted.sections)
        and (bullet.smoothed_confidence if admitted.smoothed else bullet.confidence_score) >= admitted.min_confidence
    ]
