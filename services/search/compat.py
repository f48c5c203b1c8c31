"""The in-process names of the specification (S-01 to S-07), over the engine of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chassis.logging import get_logger
from libs.embedding.errors import EmbeddingFailed
from services.search.domain.bullet import Bullet
from services.search.domain.entry import bullet_entry
from services.search.domain.fusion import Fusion, checked_alpha
from services.search.domain.index import DEFAULT_RULES, HybridIndex
from services.search.domain.query import Filter, SearchQuery
from services.search.domain.tokenizers import whitespace
from services.search.domain.vectors import Floats, unit
from services.search.usecases.rank_bullets import candidates_of

__all__ = ["EmbeddingClient", "HybridSearch", "SearchQuery", "SearchResult"]

log = get_logger(__name__)


class EmbeddingModel(Protocol):
    """What LangChain calls Embeddings: text to vectors, all of one dimension."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        ...

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts, in order."""
        ...


class EmbeddingClient:
    """The injected embedding model (S-06)."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self._model.embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts, in order."""
        return self._model.embed_documents(texts)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A bullet that was found (S-03, S-04)."""

    bullet: Bullet
    vector_score: float
    bm25_score: float
    combined_score: float
    raw_cosine: float = 0.0
    raw_bm25: float = 0.0


class HybridSearch:
    """Ranks bullets by vector similarity and Okapi BM25 together (S-07 to S-35). Raises `AlphaOutOfRange`."""

    def __init__(self, embedding_client: EmbeddingModel, alpha: float = 0.5) -> None:
        self._embedding_client = embedding_client
        self._alpha = checked_alpha(alpha)

    def search(self, query: SearchQuery, bullets: Sequence[Bullet]) -> list[SearchResult]:
        """Return the best `top_k` bullets; no embedding call without candidates. Raises `EmbeddingFailed`."""
        candidates = candidates_of(bullets, query.filter)
        if not candidates:
            return []
        try:
            given = self._embedding_client.embed_query(query.query_text)
            vectors = self._embedding_client.embed_documents([bullet.searchable_text for bullet in candidates])
            (vector,), matrix = _checked_vectors([given], 1), _checked_vectors(vectors, len(candidates))
            if len(vector) != matrix.shape[1]:
                raise EmbeddingFailed(f"query of dimension {len(vector)}, documents of dimension {matrix.shape[1]}")
        except EmbeddingFailed as error:
            log.error("embedding failed", error=str(error))
            raise
        except Exception as error:
            log.exception("embedding failed")
            raise EmbeddingFailed(str(error)) from error
        index: HybridIndex[Bullet] = HybridIndex(matrix.shape[1], whitespace, DEFAULT_RULES)
        # Bullets may share an id.
        entries = [bullet_entry(bullet)._replace(id=str(place)) for place, bullet in enumerate(candidates)]
        found = index.apply(entries, matrix).search(
            whitespace(query.query_text), unit(vector).astype(np.float32), Filter(), Fusion(self._alpha), query.top_k
        )
        return [SearchResult(*scored[:6]) for scored in found.results]


def _checked_vectors(vectors: Sequence[Sequence[float]], expected: int) -> Floats:
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
