"""Embed new texts before their commit, outside any lock; the commit stores the vectors."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from chassis.errors import HanseiError
from chassis.logging import get_logger
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import Float32s, hash_content

MAX_SECONDS = 10.0
"""The longest time that a write waits for vectors; half of its caller's remaining time if that is less."""
PAUSE_SECONDS = 5.0
"""The time for which writes do not wait after the model embedded nothing."""
BATCH = 64
"""Texts in one call; finished batches are stored when the time limit has passed."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NewEmbeddings:
    """Vectors of one model, shape (d,), float32, unit length, by content hash."""

    model_id: str
    vectors: Mapping[bytes, Float32s]


NO_EMBEDDINGS = NewEmbeddings("", {})

EmbedTexts = Callable[[Iterable[str]], Awaitable[NewEmbeddings]]


async def embed_nothing(texts: Iterable[str]) -> NewEmbeddings:
    """Return no vectors: search embeds all texts."""
    return NO_EMBEDDINGS


class EmbedNewTexts:
    """Embeds texts before their commit. No write fails because of it: search embeds texts without a vector.

    `remaining` returns the remaining seconds of the caller, None without a deadline; `count` receives the numbers of
    texts with and without a vector.
    """

    def __init__(
        self,
        embedder: TextEmbedder,
        *,
        remaining: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        count: Callable[[int, int], None] = lambda embedded, missing: None,
    ) -> None:
        self._embedder = embedder
        self._remaining = remaining
        self._clock = clock
        self._count = count
        self._paused_until = -math.inf

    async def __call__(self, texts: Iterable[str]) -> NewEmbeddings:
        """Return the vectors of the texts; some are missing if the model fails or takes too long."""
        distinct = list(dict.fromkeys(texts))
        vectors = await self._embed(distinct) if distinct else {}
        self._count(len(vectors), len(distinct) - len(vectors))
        by_hash = {hash_content(text): vector for text, vector in vectors.items()}
        return NewEmbeddings(self._embedder.model.model_id, by_hash)

    async def _embed(self, texts: list[str]) -> Mapping[str, Float32s]:
        embedded: dict[str, Float32s] = {}
        if self._clock() >= self._paused_until:
            remaining = self._remaining()
            try:
                async with asyncio.timeout(MAX_SECONDS if remaining is None else min(MAX_SECONDS, remaining / 2)):
                    for start in range(0, len(texts), BATCH):
                        batch = texts[start : start + BATCH]
                        vectors = await self._embedder.embed_documents(batch, persist=False)
                        embedded.update(zip(batch, vectors, strict=True))
                return embedded
            except (HanseiError, TimeoutError) as error:
                if not embedded:
                    self._paused_until = self._clock() + PAUSE_SECONDS
                _log.warning(
                    "embedding before the commit failed; search will embed the texts",
                    texts=len(texts) - len(embedded),
                    error=str(error) or "the time limit has passed",
                )
        return {**await self._embedder.get_cached(texts), **embedded}
