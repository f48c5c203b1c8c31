"""The interface of an embedding model, and the checks that hold for the vectors of every model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from libs.embedding.errors import MalformedVectors

Float32s = NDArray[np.float32]


class SimilarityThresholds(NamedTuple):
    """The lowest cosines, 0..1, of texts with the same meaning, on the same subject, and of a query's best text.

    The first two are the first cosines from which at most one pair in fifty is judged wrongly (`python -m
    bench.similarity`). At most one in fifty queries that a text answers has no text from the third on (`python -m
    bench.similarity.query_match`); 0: not measured.
    """

    same_meaning: float
    same_subject: float
    query_match: float = 0.0


class Languages(Enum):
    """The languages whose texts a model compares well."""

    LATIN = "texts in Latin script only"
    SEVERAL = "several languages; whether a question is near its answer in another one was not measured"
    ACROSS = "a question is near its answer in another language"


class EmbeddingModel(Protocol):
    """A model that turns texts into vectors of one dimension.

    ``model_id`` names it with everything that changes its vectors: vectors of different models are never compared.
    ``trust`` in 0..1 and ``languages`` decide the weight of its cosine against BM25; ``thresholds`` classify cosines.
    """

    model_id: str
    trust: float
    languages: Languages
    thresholds: SimilarityThresholds

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, d), float32, not normalised. Raises `EmbeddingFailed`.

        `queries` says that the texts are searched with; some models embed them differently from documents.
        """
        ...


def hash_content(text: str) -> bytes:
    """Return the SHA-256 of a text, 32 bytes. Lone surrogates, which no encoding has, are kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def check_vectors(vectors: Sequence[Sequence[float]] | Float32s, count: int, dimension: int = 0) -> Float32s:
    """Return the vectors, shape (count, d), float32; `dimension` 0 admits any. Raises `MalformedVectors` (S-16)."""
    if len(vectors) != count:
        raise MalformedVectors(f"sent {len(vectors)} vectors for {count} texts")
    if not count:
        return np.zeros((0, dimension), np.float32)
    expected = dimension or len(vectors[0])
    unequal = next((len(vector) for vector in vectors if len(vector) != expected or not len(vector)), None)
    if unequal is not None:
        raise MalformedVectors(f"sent a vector of dimension {unequal}, not {expected}")
    if any(isinstance(vector[0], (list, tuple)) for vector in vectors):
        raise MalformedVectors("sent a vector whose elements are lists: it embeds each token, not the text")
    with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite and is refused below
        matrix = np.asarray(vectors, np.float32)
    if not np.isfinite(matrix).all():
        raise MalformedVectors("sent a vector with a number that is not finite")
    return matrix


def normalize(vectors: Float32s) -> Float32s:
    """Return the vectors at unit length, shape (n, d), float32; zero vectors stay zero."""
    wide = vectors.astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    norms[norms == 0.0] = 1.0
    unit: Float32s = (wide / norms[:, np.newaxis]).astype(np.float32)
    return unit
