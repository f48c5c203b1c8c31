"""Embedders that compute in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chassis.cpu import CpuPool
from services.search.domain.embedding import Float32s

# A query waits for at most one batch of somebody's documents.
BATCH = 16


class LocalModel(Protocol):
    """A model that turns texts into vectors in the calling thread."""

    model: str
    trust: float
    only_latin: bool
    dimension: int

    def vectors(self, texts: Sequence[str]) -> Float32s:
        """Vectors of shape (len(texts), dimension), in order."""
        ...


class LocalEmbedder:
    """A local model, run on a pool of threads, a batch at a time."""

    def __init__(self, model: LocalModel, pool: CpuPool) -> None:
        self.model = model.model
        self.trust = model.trust
        self.only_latin = model.only_latin
        self._model = model
        self._pool = pool

    async def embed(self, texts: Sequence[str]) -> Float32s:
        """Vectors of shape (len(texts), dimension), in order. Texts of like length share a batch: less padding."""
        vectors = np.empty((len(texts), self._model.dimension), np.float32)
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(texts), BATCH):
            places = by_length[start : start + BATCH]
            vectors[places] = await self._pool.run(self._model.vectors, [texts[place] for place in places])
        return vectors
