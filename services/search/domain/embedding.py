"""From text to vectors, as search needs it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.search.domain.tokenizers import latin_share

Float32s = NDArray[np.float32]


class Embedder(Protocol):
    """A model that turns texts into vectors of one dimension.

    ``model`` names it with everything that changes its vectors: vectors of different models are never compared.
    ``trust`` in 0..1 scales the weight of the vector score: how much its cosine says compared to BM25.
    ``only_latin`` says that it knows nothing of other scripts: its weight follows the query's share of Latin letters.
    """

    model: str
    trust: float
    only_latin: bool

    async def embed(self, texts: Sequence[str]) -> Float32s:
        """Vectors of shape (len(texts), dimension), in order. Raises `EmbeddingFailed`."""
        ...


class EmbeddingCache(Protocol):
    """Remembers vectors by model and content hash (S-17)."""

    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Float32s]:
        """The vectors that are known."""
        ...

    async def put(self, model: str, vectors: Mapping[bytes, Float32s]) -> None:
        """Remember vectors; known ones are kept as they are."""
        ...


@dataclass(frozen=True, slots=True)
class VectorWeight:
    """The weight of the vector score where a query does not give one; `scaled` by what the embedder is worth."""

    alpha: float
    scaled: bool = True

    def of(self, text: str, embedder: Embedder) -> float:
        """The weight for this query, in 0..alpha."""
        if not self.scaled:
            return self.alpha
        return self.alpha * embedder.trust * (latin_share(text) if embedder.only_latin else 1.0)


def content_hash(text: str) -> bytes:
    """SHA-256 of a text, 32 bytes. Lone surrogates, which no encoding has, are taken as they come."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
