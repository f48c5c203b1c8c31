"""Made-up text and vectors of the kind that search meets: words by Zipf's law, vectors in clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIMENSION = 384
_VOCABULARY = 30_000
_WORDS = 30
_QUERY_WORDS = 7


@dataclass(frozen=True)
class Corpus:
    """Documents and queries: texts, and unit vectors of float32."""

    texts: list[str]
    vectors: NDArray[np.float32]
    queries: list[str]
    query_vectors: NDArray[np.float32]


def corpus(documents: int, queries: int, seed: int = 1) -> Corpus:
    """The same corpus for the same arguments. Queries repeat words of a document and lie near its vector."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, _VOCABULARY + 1)
    words = np.array([f"word{number}" for number in range(_VOCABULARY)])
    drawn = rng.choice(_VOCABULARY, size=(documents, _WORDS), p=frequency / frequency.sum())
    centres = rng.normal(size=(max(8, documents // 100), DIMENSION))
    vectors = centres[rng.integers(len(centres), size=documents)] + rng.normal(size=(documents, DIMENSION))
    asked = rng.integers(documents, size=queries)
    places = np.array([rng.choice(_WORDS, _QUERY_WORDS, replace=False) for _ in range(queries)])
    near = vectors[asked] + 0.7 * rng.normal(size=(queries, DIMENSION))
    return Corpus(
        [" ".join(row) for row in words[drawn]],
        _unit(vectors),
        [" ".join(words[drawn[document, chosen]]) for document, chosen in zip(asked, places, strict=True)],
        _unit(near),
    )


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit
