"""Choose the bullets that a reflecting model is told: the served ones, and those that matter for the task."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator

from chassis.logging import get_logger
from libs.llm.tokens import estimate_tokens
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.domain.log import StoredBullet
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.similarity import SimilaritySource

MAX_TOKENS = 8_000
"""Estimated tokens of the bullets beside the served ones."""
MAX_BULLETS = 400
MAX_NEAREST = 100
"""The nearest bullets of a playbook of which not all fit."""

_log = get_logger(__name__)


class NearBullets:
    """Chooses bullets for a task: all while they are few, else the nearest ones."""

    def __init__(self, source: SimilaritySource) -> None:
        self._source = source

    async def choose(self, playbook: Snapshot, served: Collection[str], query: str) -> list[StoredBullet]:
        """Return the served bullets and those that matter for the query, in playbook order.

        Without the similarity of the query only the served ones are returned, which is logged.
        """
        bullets = playbook.list_bullets()
        others = [stored for stored in bullets if stored.bullet.id not in served and not stored.bullet.retired]
        if query and sum(estimate_tokens(stored.bullet.content) for stored in others) > MAX_TOKENS:
            others = await self._rank(playbook, others, query)
        slots = {stored.slot for stored in _limit(others)} if query else set()
        return [stored for stored in bullets if stored.bullet.id in served or stored.slot in slots]

    async def _rank(self, playbook: Snapshot, bullets: list[StoredBullet], query: str) -> list[StoredBullet]:
        """Return the bullets nearest to the query, the nearest first, so that those that are left out matter least."""
        try:
            similarity = await self._source.compare([query], playbook)
        except SimilarityUnavailable as error:
            _log.warning("search for the bullets of a task failed", dataset=playbook.dataset, error=str(error))
            return []
        return await asyncio.to_thread(similarity.rank, query, bullets, MAX_NEAREST)


def _limit(bullets: list[StoredBullet]) -> Iterator[StoredBullet]:
    """Yield the first bullets that fit."""
    remaining = MAX_TOKENS
    for stored in bullets[:MAX_BULLETS]:
        tokens = estimate_tokens(stored.bullet.content)
        if tokens <= remaining:
            remaining -= tokens
            yield stored
