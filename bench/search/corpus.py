"""Synthetic text and vectors of the kind that search gets: words by Zipf's law, vectors in clusters."""

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


def create_corpus(documents: int, queries: int, seed: int = 1) -> Corpus:
    """Return a corpus, the same for the same arguments. Queries repeat words of a document and lie near its vector."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, _VOCABULARY + 1)
    words = [f"word{number}" for number in range(_VOCABULARY)]
    vocabulary_numbers = rng.choice(_VOCABULARY, size=(documents, _WORDS), p=frequency / frequency.sum())
    centres = rng.normal(size=(max(8, documents // 100), DIMENSION))
    centre_numbers = rng.integers(len(centres), size=documents)
    vectors = np.empty((documents, DIMENSION), np.float32)
    for start in range(0, documents, _BLOCK):  # a million at once in float64 would take nine gigabytes
        block = centres[centre_numbers[start : start + _BLOCK]]
        vectors[start : start + _BLOCK] = block + rng.normal(size=block.shape)
    queried = rng.integers(documents, size=queries)
    word_numbers = np.array([rng.choice(_WORDS, _QUERY_WORDS, replace=False) for _ in range(queries)])
    query_vectors = vectors[queried] + 0.7 * rng.normal(size=(queries, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Corpus(
        [" ".join([words[number] for number in row.tolist()]) for row in vocabulary_numbers],
        vectors,
        [
            " ".join([words[number] for number in vocabulary_numbers[document, chosen]])
            for document, chosen in zip(queried, word_numbers, strict=True)
        ],
        (query_vectors / np.linalg.norm(query_vectors, axis=1, keepdims=True)).astype(np.float32),
    )
