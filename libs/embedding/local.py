"""Embedding models that compute in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np

from chassis.server.cpu import CpuPool
from libs.embedding.model import Float32s, Languages, SimilarityThresholds

# A query waits for at most one batch of documents.
BATCH = 16


class LocalModel(Protocol):
    """A model that embeds in the calling thread; safe to call from several threads.

    ``inline_characters``: texts up to this total length take less time than a thread hand-over.
    """

    model_id: str
    trust: float
    languages: Languages
    thresholds: SimilarityThresholds
    dimension: int
    inline_characters: int

    def compute(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, dimension), float32. For `queries` see `EmbeddingModel.embed`."""
        ...


class PooledModel:
    """A local model as an `EmbeddingModel`: it computes on a pool of threads, a batch at a time."""

    def __init__(self, model: LocalModel, pool: CpuPool) -> None:
        self.model_id = model.model_id
        self.trust = model.trust
        self.languages = model.languages
        self.thresholds = model.thresholds
        self.inline_characters = model.inline_characters
        self._model = model
        self._pool = pool

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, d), float32. Texts of similar length share a batch."""
        if 0 < sum(map(len, texts)) <= self.inline_characters:
            return self._model.compute(texts, queries=queries)
        compute = partial(self._model.compute, queries=queries)
        vectors = np.empty((len(texts), self._model.dimension), np.float32)
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        for start in range(0, len(texts), BATCH):
            rows = by_length[start : start + BATCH]
            vectors[rows] = await self._pool.run(compute, [texts[row] for row in rows])
        return vectors
