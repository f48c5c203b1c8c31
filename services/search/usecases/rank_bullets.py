"""Ranks bullets that the caller brings along; keeps nothing of them (S-36)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from services.search.domain.bullet import Bullet
from services.search.domain.entry import bullet_entry
from services.search.domain.query import Filter, Ranking
from services.search.usecases.ports import SearchIndex
from services.search.usecases.search_playbook import Ask, RankEntries


class RankBullets:
    """Ranks by an index that is made for the request and thrown away, so both ways to search are one."""

    def __init__(
        self,
        embed: TextEmbedder,
        rank: RankEntries,
        new_index: Callable[[int], SearchIndex[Bullet]],
        pool: CpuPool,
    ) -> None:
        self._embed = embed
        self._rank = rank
        self._new_index = new_index
        self._pool = pool

    async def __call__(self, ask: Ask, bullets: Sequence[Bullet]) -> Ranking[Bullet]:
        """The best bullets, best first, ties in the given order; no embedding call without candidates (S-12).

        Bullets may share an id. Raises `EmbeddingFailed` (S-37), `WrongVector`.
        """
        candidates = candidates_of(bullets, ask.query.filter)
        if not candidates:
            return Ranking()
        vectors = await self._embed.embed_documents([bullet.searchable_text for bullet in candidates])
        entries = [bullet_entry(bullet)._replace(id=str(place)) for place, bullet in enumerate(candidates)]
        view = await self._pool.run(self._new_index(vectors.shape[1]).apply, entries, vectors)
        (ranking,) = await self._rank(view, [ask])
        return ranking


def candidates_of(bullets: Sequence[Bullet], admitted: Filter) -> list[Bullet]:
    """Return the bullets that a filter admits, in playbook order (S-09, S-10, S-13)."""
    return [
        bullet
        for bullet in bullets
        if (not admitted.sections or bullet.section in admitted.sections)
        and bullet.confidence_score >= admitted.min_confidence
    ]
