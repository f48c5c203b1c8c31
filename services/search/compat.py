"""The in-process API of the specification (S-01 to S-07), on the engine of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chassis.logging import get_logger
from libs.embedding.errors import EmbeddingFailed
from services.search.domain.bullet import IndexedBullet
from services.search.domain.entry import create_bullet_entry
from services.search.domain.fusion import Fusion, check_alpha
from services.search.domain.index import DEFAULT_RULES, HybridIndex
from services.search.domain.query import CandidateFilter, SearchQuery
from services.search.domain.tokenizers import tokenize_whitespace
from services.search.domain.vectors import Floats, scale_to_unit
from services.search.usecases.rank_bullets import filter_bullets

__all__ = ["EmbeddingClient", "HybridSearch", "SearchQuery", "SearchResult"]

log = get_logger(__name__)


class InjectedEmbeddingModel(Protocol):
    """An embedding model with the interface of LangChain's Embeddings."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts, in order."""


class EmbeddingClient:
    """The injected embedding model (S-06)."""

    def __init__(self, model: InjectedEmbeddingModel) -> None:
        self._model = model

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self._model.embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts, in order."""
        return self._model.embed_documents(texts)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A bullet of a ranking with its scores (S-03, S-04)."""

    bullet: IndexedBullet
    vector_score: float
    bm25_score: float
    combined_score: float
    raw_cosine: float = 0.0
    raw_bm25: float = 0.0


class HybridSearch:
    """Ranks bullets by vector similarity and Okapi BM25 together (S-07 to S-35). Raises `AlphaOutOfRange`."""

    def __init__(self, embedding_client: InjectedEmbeddingModel, alpha: float = 0.5) -> None:
        self._embedding_client = embedding_client
        self._alpha = check_alpha(alpha)

    def search(self, query: SearchQuery, bullets: Sequence[IndexedBullet]) -> list[SearchResult]:
        """Return the best `top_k` bullets; no embedding call without candidates. Raises `EmbeddingFailed`."""
        candidates = filter_bullets(bullets, query.filter)
        if not candidates:
            return []
        try:
            query_vector = self._embedding_client.embed_query(query.query_text)
            vectors = self._embedding_client.embed_documents([bullet.searchable_text for bullet in candidates])
            (vector,), matrix = _check_vectors([query_vector], 1), _check_vectors(vectors, len(candidates))
            if len(vector) != matrix.shape[1]:
                raise EmbeddingFailed(f"query of dimension {len(vector)}, documents of dimension {matrix.shape[1]}")
        except EmbeddingFailed as error:
            log.error("embedding failed", error=str(error))
            raise
        except Exception as error:
            log.exception("embedding failed")
            raise EmbeddingFailed(str(error)) from error
        index: HybridIndex[IndexedBullet] = HybridIndex(matrix.shape[1], tokenize_whitespace, DEFAULT_RULES)
        # Bullets may share an id.
        entries = [create_bullet_entry(bullet)._replace(id=str(row)) for row, bullet in enumerate(candidates)]
        ranking = index.apply(entries, matrix).search(
            tokenize_whitespace(query.query_text),
            scale_to_unit(vector).astype(np.float32),
            CandidateFilter(),
            Fusion(self._alpha),
            query.top_k,
        )
        return [SearchResult(*scored[:6]) for scored in ranking.results]


def _check_vectors(vectors: Sequence[Sequence[float]], expected: int) -> Floats:
    """Return vectors as float64 of shape (expected, dimension). Raises `EmbeddingFailed` for any other reply (S-16)."""
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
