"""The vectors of new texts are made before the commit that brings them, outside any lock, and stored with it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from chassis.errors import HanseiError
from chassis.logging import get_logger
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import Float32s, content_hash

MAX_SECONDS = 10.0
"""Seconds that a write waits for vectors at most, and at most half of what its caller has left."""
PAUSE_SECONDS = 5.0
"""Seconds for which writes do not wait for a model that embedded nothing."""
BATCH = 64
"""Texts embedded at a time; what was embedded when the time is up is stored."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NewEmbeddings:
    """Vectors of one model, shape (d,), float32, unit length, by content hash."""

    model_id: str
    vectors: Mapping[bytes, Float32s]


NOTHING = NewEmbeddings("", {})

EmbedTexts = Callable[[Iterable[str]], Awaitable[NewEmbeddings]]


async def embed_nothing(texts: Iterable[str]) -> NewEmbeddings:
    """Leave all texts to search."""
    return NOTHING


class EmbedNewTexts:
    """Embeds what is about to be committed. No write fails for it: search embeds the texts that are left out.

    `remaining` returns the seconds that the caller has left, None without a deadline; `count` receives how many texts
    were embedded, and how many not.
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
        """Return the vectors of the texts, of all of them unless the model fails or takes too long."""
        distinct = list(dict.fromkeys(texts))
        vectors = await self._embed(distinct) if distinct else {}
        self._count(len(vectors), len(distinct) - len(vectors))
        by_hash = {content_hash(text): vector for text, vector in vectors.items()}
        return NewEmbeddings(self._embedder.model.model_id, by_hash)

    async def _embed(self, texts: list[str]) -> Mapping[str, Float32s]:
        made: dict[str, Float32s] = {}
        if self._clock() >= self._paused_until:
            left = self._remaining()
            try:
                async with asyncio.timeout(MAX_SECONDS if left is None else min(MAX_SECONDS, left / 2)):
                    for start in range(0, len(texts), BATCH):
                        batch = texts[start : start + BATCH]
                        vectors = await self._embedder.embed_documents(batch, persist=False)
                        made.update(zip(batch, vectors, strict=True))
                return made
            except (HanseiError, TimeoutError) as error:
                if not made:
                    self._paused_until = self._clock() + PAUSE_SECONDS
                missing, cause = len(texts) - len(made), str(error) or "it took too long"
                _log.warning("embedding before the commit failed; search embeds", texts=missing, cause=str(cause))
        return {**await self._embedder.cached(texts), **made}
