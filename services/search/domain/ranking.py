"""Hybrid ranking of a list of bullets, without any index: the definition that the index must equal."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.search.domain.bm25 import OKAPI, Variant, bm25_scores
from services.search.domain.bullet import Bullet
from services.search.domain.errors import EmbeddingFailed
from services.search.domain.fusion import checked_alpha, min_max, weighted
from services.search.domain.query import Filter, SearchQuery, SearchResult
from services.search.domain.tokenizers import Tokenizer, terms_of, whitespace

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

_SMALL = 1e-100


class EmbeddingModel(Protocol):
    """What LangChain calls Embeddings: text to vectors, all of one dimension."""

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        ...

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts, in order."""
        ...


class EmbeddingClient:
    """The injected embedding model, under the names of the specification (S-06)."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self._model.embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts, in order."""
        return self._model.embed_documents(texts)


class HybridSearch:
    """Ranks bullets by vector similarity and BM25 together (S-07 to S-35). Raises `AlphaOutOfRange`."""

    def __init__(
        self,
        embedding_client: EmbeddingModel,
        alpha: float = 0.5,
        tokenize: Tokenizer = whitespace,
        variant: Variant = OKAPI,
    ) -> None:
        self._embedding_client = embedding_client
        self._alpha = checked_alpha(alpha)
        self._tokenize = tokenize
        self._variant = variant

    def search(self, query: SearchQuery, bullets: Sequence[Bullet]) -> list[SearchResult]:
        """The best `top_k` bullets, best first; no embedding call without candidates. Raises `EmbeddingFailed`."""
        candidates = candidates_of(bullets, query.filter)
        if not candidates:
            return []
        try:
            query_vector = self._embedding_client.embed_query(query.query_text)
            vectors = self._embedding_client.embed_documents([bullet.searchable_text for bullet in candidates])
            cosine = cosines(checked_vectors([query_vector], 1)[0], checked_vectors(vectors, len(candidates)))
        except EmbeddingFailed as error:
            log.error("embedding failed: %s", error)
            raise
        except Exception as error:
            log.exception("embedding failed")
            raise EmbeddingFailed(str(error)) from error
        return rank(query, candidates, cosine, self._alpha, self._tokenize, self._variant)


def candidates_of(bullets: Sequence[Bullet], admitted: Filter) -> list[Bullet]:
    """The bullets a filter admits, in playbook order (S-09, S-10, S-13)."""
    return [
        bullet
        for bullet in bullets
        if (not admitted.sections or bullet.section in admitted.sections)
        and bullet.confidence_score >= admitted.min_confidence
    ]


def rank(
    query: SearchQuery,
    candidates: Sequence[Bullet],
    cosine: Floats,
    alpha: float,
    tokenize: Tokenizer = whitespace,
    variant: Variant = OKAPI,
) -> list[SearchResult]:
    """The best `top_k` candidates, best first, ties in the given order (S-29 to S-34). `cosine`: shape (N,)."""
    corpus = [terms_of(bullet.searchable_text, bullet.keywords, tokenize) for bullet in candidates]
    bm25 = bm25_scores(corpus, tokenize(query.query_text), variant)
    vector_scores, bm25_scaled = min_max(cosine), min_max(bm25)
    combined = weighted(vector_scores, bm25_scaled, alpha)
    order = np.argsort(-combined, kind="stable")[: query.top_k]
    return [
        SearchResult(
            bullet=candidates[row],
            vector_score=float(vector_scores[row]),
            bm25_score=float(bm25_scaled[row]),
            combined_score=float(combined[row]),
            raw_cosine=float(cosine[row]),
            raw_bm25=float(bm25[row]),
        )
        for row in order.tolist()
    ]


def checked_vectors(vectors: Sequence[Sequence[float]] | NDArray[np.float32], expected: int) -> Floats:
    """Vectors as float64 of shape (expected, dimension). Raises `EmbeddingFailed` for any other reply (S-16)."""
    if len(vectors) != expected:
        raise EmbeddingFailed(f"{len(vectors)} vectors for {expected} texts")
    if len({len(vector) for vector in vectors}) > 1:
        raise EmbeddingFailed("vectors of unequal dimensions")
    try:
        matrix = np.asarray(vectors, dtype=np.float64).reshape(expected, -1)
    except (TypeError, ValueError) as error:
        raise EmbeddingFailed("a vector that is not a list of numbers") from error
    if not matrix.shape[1]:
        raise EmbeddingFailed("vectors without dimensions")
    if not np.isfinite(matrix).all():
        raise EmbeddingFailed("a vector with a value that is not finite")
    return matrix


def cosines(query: Floats, documents: Floats) -> Floats:
    """dot(q, d) / (|q|·|d|) for every row of `documents`; 0 where a norm is 0 (S-15).

    Raises `EmbeddingFailed` for unequal dimensions. Each row is summed alone, so equal rows give equal bits (S-41).
    """
    if documents.shape[1] != query.shape[0]:
        raise EmbeddingFailed(f"query of dimension {query.shape[0]}, documents of dimension {documents.shape[1]}")
    query, documents = unit(query), unit(documents)
    products: Floats = (documents * query).sum(axis=1)
    return products


def unit(vectors: Floats) -> Floats:
    """Vectors divided by their norm, zero vectors unchanged."""
    with np.errstate(over="ignore", under="ignore"):
        norms = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    if norms.size and norms.min() > _SMALL and norms.max() < np.inf:
        plain: Floats = vectors / norms
        return plain
    # Scaled by the largest value first, so that no square overflows or vanishes.
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    scaled = vectors / np.where(largest == 0.0, 1.0, largest)
    norms = np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    normalised: Floats = scaled / np.where(norms == 0.0, 1.0, norms)
    return normalised
