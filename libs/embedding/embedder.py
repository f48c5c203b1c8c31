"""Text to vector through one cache: by model id and content hash, in memory and in a store (S-17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from cachetools import LRUCache

from chassis.errors import DeadlineExceeded
from libs.embedding.errors import EmbeddingFailed, MalformedVectors
from libs.embedding.model import EmbeddingModel, Float32s, check_vectors, hash_content, normalize
from libs.embedding.store import EmbeddingStore

BATCH = 256
CAPACITY = 2048
"""Vectors of documents, and of queries, that are cached in memory."""

Count = Callable[[str, int, int], None]
"""Receives the kind of texts (`documents`, `queries`), the number of cached vectors and of vectors made."""


def count_nothing(kind: str, cached: int, made: int) -> None:
    """Ignore the counts."""


class TextEmbedder:
    """Embeds texts with one model; each text goes to the model once while its vector is cached.

    All vectors are float32, finite, and of unit length, or zero. `store` holds vectors of documents only; those of
    queries were checked when the model made them.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        store: EmbeddingStore | None = None,
        *,
        capacity: int = CAPACITY,
        count: Count = count_nothing,
    ) -> None:
        self.model = model
        # Texts up to this total length are embedded in less time than a thread hand-over; only local models have it.
        self._inline_characters: int = getattr(model, "inline_characters", 0)
        self._store = store
        self._documents: LRUCache[bytes, Float32s] = LRUCache(capacity)
        self._queries: LRUCache[str, Float32s] = LRUCache(capacity)
        self._count = count
        self._dimension = 0

    async def get_cached(
        self, texts: Sequence[str], model_id: str = "", *, reads_store: bool = True
    ) -> dict[str, Float32s]:
        """Return the vectors of those texts that are in memory or in the store; `model_id` defaults to the own one."""
        own = model_id in ("", self.model.model_id)
        hashes = {text: hash_content(text) for text in dict.fromkeys(texts)}
        found: dict[bytes, Float32s] = {}
        if own:
            found = {digest: self._documents[digest] for digest in hashes.values() if digest in self._documents}
        absent = [digest for digest in hashes.values() if digest not in found]
        if absent and reads_store and self._store is not None:
            stored = await self._store.get(model_id or self.model.model_id, absent)
            found.update(stored)
            if own:
                self._documents.update(stored)
        return {text: found[digest] for text, digest in hashes.items() if digest in found}

    async def embed_documents(self, texts: Sequence[str], *, persist: bool = True) -> Float32s:
        """Return the vectors of texts that searches find or compare, shape (n, d).

        `persist` puts new vectors into the store, not only into memory. Raises `EmbeddingFailed`.
        """
        vectors = await self.get_cached(texts, reads_store=persist or not self._is_instant(texts))
        absent = [text for text in dict.fromkeys(texts) if text not in vectors]
        self._count("documents", len(vectors), len(absent))
        for start in range(0, len(absent), BATCH):
            batch = absent[start : start + BATCH]
            made = dict(zip(batch, await self._embed(batch), strict=True))
            vectors.update(made)
            hashed = {hash_content(text): vector for text, vector in made.items()}
            self._documents.update(hashed)
            if persist and self._store is not None:
                await self._store.put(self.model.model_id, hashed)
        return self._stack_vectors([vectors[text] for text in texts])

    def _is_instant(self, texts: Sequence[str]) -> bool:
        """Return whether the model embeds the texts in less time than the store is read."""
        return sum(map(len, texts)) <= self._inline_characters

    async def embed_queries(self, texts: Sequence[str]) -> Float32s:
        """Return the vectors of queries, shape (n, d). Raises `EmbeddingFailed`."""
        vectors = {text: self._queries[text] for text in dict.fromkeys(texts) if text in self._queries}
        absent = [text for text in dict.fromkeys(texts) if text not in vectors]
        self._count("queries", len(vectors), len(absent))
        if absent:
            made = dict(zip(absent, await self._embed(absent, queries=True), strict=True))
            self._queries.update(made)
            vectors |= made
        return np.array([vectors[text] for text in texts], np.float32).reshape(len(texts), self._dimension)

    async def _embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        try:
            vectors = check_vectors(await self.model.embed(texts, queries=queries), len(texts), self._dimension)
        except MalformedVectors as error:
            raise EmbeddingFailed(str(error)) from error
        except (EmbeddingFailed, DeadlineExceeded):
            raise
        except Exception as error:
            raise EmbeddingFailed(str(error)) from error
        self._dimension = vectors.shape[1]
        return normalize(vectors)

    def _stack_vectors(self, vectors: Sequence[Float32s]) -> Float32s:
        """Return the vectors as one matrix. A store may hold vectors of another dimension than the model makes now."""
        try:
            return check_vectors(vectors, len(vectors), self._dimension)  # type: ignore[arg-type]
        except MalformedVectors as error:
            raise EmbeddingFailed(str(error)) from error
