"""Made-up text and vectors of the kind that search meets: words by Zipf's law, vectors in clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIMENSION = 384
_VOCABULARY = 30_000
_WORDS = 30
_QUERY_WORDS = 7
_BLOCK = 65_536


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
    words = [f"word{number}" for number in range(_VOCABULARY)]
    drawn = rng.choice(_VOCABULARY, size=(documents, _WORDS), p=frequency / frequency.sum())
    centres = rng.normal(size=(max(8, documents // 100), DIMENSION))
    of_centre = rng.integers(len(centres), size=documents)
    vectors = np.empty((documents, DIMENSION), np.float32)
    for start in range(0, documents, _BLOCK):  # a million at once in float64 would take nine gigabytes
        block = centres[of_centre[start : start + _BLOCK]]
        vectors[start : start + _BLOCK] = block + rng.normal(size=block.shape)
    asked = rng.integers(documents, size=queries)
    places = np.array([rng.choice(_WORDS, _QUERY_WORDS, replace=False) for _ in range(queries)])
    near = vectors[asked] + 0.7 * rng.normal(size=(queries, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Corpus(
        [" ".join([words[number] for number in row.tolist()]) for row in drawn],
        vectors,
        [
            " ".join([words[number] for number in drawn[document, chosen]])
            for document, chosen in zip(asked, places, strict=True)
        ],
        (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32),
    )
