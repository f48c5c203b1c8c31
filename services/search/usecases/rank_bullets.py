"""Ranks bullets that the caller brings along; keeps nothing of them (S-36)."""

from __future__ import annotations

from collections.abc import Sequence

from chassis.cpu import CpuPool
from services.search.domain.bm25 import Variant
from services.search.domain.bullet import Bullet
from services.search.domain.embedding import VectorWeight
from services.search.domain.fusion import checked_alpha
from services.search.domain.query import SearchResult
from services.search.domain.ranking import Floats, candidates_of, checked_vectors, cosines, rank
from services.search.domain.tokenizers import Tokenizer
from services.search.usecases.embed_texts import EmbedTexts
from services.search.usecases.search_playbook import Ask


class RankBullets:
    """`HybridSearch` over the service's embedder, without an index."""

    def __init__(
        self, embed: EmbedTexts, tokenize: Tokenizer, variant: Variant, weight: VectorWeight, pool: CpuPool
    ) -> None:
        self._embed = embed
        self._tokenize = tokenize
        self._variant = variant
        self._weight = weight
        self._pool = pool

    async def __call__(self, ask: Ask, bullets: Sequence[Bullet]) -> list[SearchResult]:
        """The best bullets, best first; no embedding call without candidates. Raises `EmbeddingFailed` (S-37)."""
        candidates = candidates_of(bullets, ask.query.filter)
        if not candidates:
            return []
        alpha = ask.alpha
        if alpha is None:
            alpha = self._weight.of(ask.query.query_text, self._embed.embedder)
        (query,) = checked_vectors(await self._embed.queries([ask.query.query_text]), 1)
        documents = await self._embed.documents([bullet.searchable_text for bullet in candidates])

        def ranked() -> list[SearchResult]:
            cosine: Floats = cosines(query, checked_vectors(documents, len(candidates)))
            return rank(ask.query, candidates, cosine, checked_alpha(alpha), self._tokenize, self._variant)

        return await self._pool.run(ranked)
