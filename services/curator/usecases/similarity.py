"""Compare lessons by words or by the vectors of an embedding model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from cachetools import LRUCache

from chassis.errors import DeadlineExceeded
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s
from services.curator.domain.embedding_similarity import EmbeddingSimilarity, TextMatrix
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.domain.log import StoredBullet
from services.curator.domain.similarity import Similarity
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.word_similarity import WORDS

CACHED_MATRICES = 16
"""Matrices in memory, one for each dataset; 10,000 bullets take 15 MB with `minilm`."""
SPARE_ROWS = 1024
"""Rows of removed texts that a matrix may have in addition to half of its rows."""


class SimilaritySource(Protocol):
    """Makes the similarity by which the lessons of one reflection are compared."""

    async def compare(self, lessons: Sequence[str], playbook: Snapshot | None = None) -> Similarity:
        """Return the similarity of the lessons with each other and with the bullets of the playbook.

        Raises `SimilarityUnavailable` if the model does not answer; lessons are never compared by other means.
        """


class WordSource:
    """Compares by words, without a model."""

    async def compare(self, lessons: Sequence[str], playbook: Snapshot | None = None) -> Similarity:
        """Return the similarity of words."""
        return WORDS


class _CheckedMatrix(NamedTuple):
    """A matrix that has the texts of all these bullets, which are those of a snapshot by slot."""

    matrix: TextMatrix
    slots: Mapping[int, StoredBullet]


class EmbeddingSource:
    """Compares by vectors. `same_meaning` is the cosine from which lessons are the same; None: that of the model."""

    def __init__(self, embedder: TextEmbedder, same_meaning: float | None = None) -> None:
        self._embedder = embedder
        model = embedder.model
        self._thresholds = model.thresholds._replace(same_meaning=same_meaning or model.thresholds.same_meaning)
        self._matrices: LRUCache[str, _CheckedMatrix] = LRUCache(CACHED_MATRICES)
        self._fill_lock = asyncio.Lock()

    async def compare(self, lessons: Sequence[str], playbook: Snapshot | None = None) -> Similarity:
        """Return the similarity of vectors. Bullets whose vectors are missing are embedded and stored first."""
        distinct = list(dict.fromkeys(lessons))
        try:
            vectors = await self._embedder.embed_documents(distinct, persist=False)
            matrix = TextMatrix(vectors.shape[1]) if playbook is None else await self._build_matrix(playbook)
        except (EmbeddingFailed, DeadlineExceeded) as error:
            raise SimilarityUnavailable(error.message) from error
        by_text: dict[str, Float32s] = dict(zip(distinct, vectors, strict=True))
        return EmbeddingSimilarity(self._embedder.model.model_id, self._thresholds, matrix, by_text)

    async def _build_matrix(self, playbook: Snapshot) -> TextMatrix:
        """Return the matrix of a playbook; it gets the texts that were added since the last call."""
        checked = self._matrices.get(playbook.dataset)
        if checked is not None:
            matrix, slots = checked
            # Bullets never change, so those of the last call have rows. Reading all texts takes a millisecond.
            others = [stored for slot, stored in playbook.slots.items() if slots.get(slot) is not stored]
            is_complete = all(stored.bullet.content in matrix.rows for stored in others)
            if is_complete and len(matrix) <= 2 * playbook.bullets + SPARE_ROWS:
                self._matrices[playbook.dataset] = _CheckedMatrix(matrix, playbook.slots)
                return matrix
        texts = dict.fromkeys(stored.bullet.content for stored in playbook.list_bullets())
        async with self._fill_lock:
            checked = self._matrices.get(playbook.dataset)
            matrix = TextMatrix() if checked is None else checked.matrix
            absent = [text for text in texts if text not in matrix.rows]
            vectors = await self._embedder.embed_documents(absent)
            if len(matrix) > 2 * len(texts) + SPARE_ROWS:
                matrix = matrix.select(texts)
            if absent:
                matrix.append(absent, vectors)
            self._matrices[playbook.dataset] = _CheckedMatrix(matrix, playbook.slots)
        return matrix
