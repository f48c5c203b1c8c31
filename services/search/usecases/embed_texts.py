"""Texts become vectors once: what was embedded before is remembered by model and content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from chassis.errors import DeadlineExceeded
from services.search.domain.embedding import Embedder, EmbeddingCache, Float32s, content_hash
from services.search.domain.errors import EmbeddingFailed
from services.search.domain.ranking import unit

BATCH = 256

Count = Callable[[str, int, int], None]
"""Is told of what (documents, queries) how many vectors were known, and how many are made."""


def _count_nothing(of: str, known: int, made: int) -> None:
    """For those who do not count."""


class _QueryVector(NamedTuple):
    given: Float32s
    unit: Float32s


class EmbedTexts:
    """Embeds documents through the cache, and queries with the most recent ones in memory (S-17).

    Its answers are checked (S-16): float32, shape (len(texts), dimension), finite. Raises `EmbeddingFailed`.
    """

    def __init__(
        self,
        embedder: Embedder,
        cache: EmbeddingCache,
        remembered_queries: int = 2048,
        count: Count = _count_nothing,
    ) -> None:
        self.embedder = embedder
        self._cache = cache
        self._queries: OrderedDict[str, _QueryVector] = OrderedDict()
        self._remembered = remembered_queries
        self._count = count
        self._dimension = 0

    async def documents(self, texts: Sequence[str]) -> Float32s:
        """Vectors of texts that are searched, in order; each distinct text goes to the model at most once."""
        hashes = [content_hash(text) for text in texts]
        text_of = dict(zip(hashes, texts, strict=True))
        model = self.embedder.model
        vectors = dict(await self._cache.get(model, list(text_of)))
        missing = [digest for digest in text_of if digest not in vectors]
        self._count("documents", len(text_of) - len(missing), len(missing))
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            embedded = await self._embed([text_of[digest] for digest in batch])
            fresh = dict(zip(batch, embedded, strict=True))
            vectors.update(fresh)
            await self._cache.put(model, fresh)
        return self._checked([vectors[digest] for digest in hashes], len(texts))

    async def queries(self, texts: Sequence[str]) -> Float32s:
        """Vectors of texts that are searched with, in order."""
        return np.array([vector.given for vector in await self._vectors_of(texts)], np.float32)

    def known_direction(self, text: str) -> Float32s | None:
        """The vector of a text that was searched with before, of unit length or zero; None if it is not remembered."""
        known = self._queries.get(text)
        if known is None:
            return None
        self._count("queries", 1, 0)
        self._queries.move_to_end(text)
        return known.unit

    async def directions(self, texts: Sequence[str]) -> list[Float32s]:
        """The same, each of unit length or zero."""
        return [vector.unit for vector in await self._vectors_of(texts)]

    async def _vectors_of(self, texts: Sequence[str]) -> list[_QueryVector]:
        remembered = self._queries
        distinct = texts if len(texts) == 1 else list(dict.fromkeys(texts))
        missing = [text for text in distinct if text not in remembered]
        self._count("queries", len(distinct) - len(missing), len(missing))
        if missing:
            embedded = await self._embed(missing)
            units = unit(embedded.astype(np.float64)).astype(np.float32)
            for text, *both in zip(missing, embedded, units, strict=True):
                remembered[text] = _QueryVector(*both)
        for text in distinct:
            remembered.move_to_end(text)
        found = [remembered[text] for text in texts]
        while len(remembered) > self._remembered:
            remembered.popitem(last=False)
        return found

    async def _embed(self, texts: Sequence[str]) -> Float32s:
        try:
            vectors = await self.embedder.embed(texts)
        except (EmbeddingFailed, DeadlineExceeded):
            raise
        except Exception as error:
            raise EmbeddingFailed(str(error)) from error
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: Sequence[Float32s] | Float32s, expected: int) -> Float32s:
        if len(vectors) != expected:
            raise EmbeddingFailed(f"{len(vectors)} vectors for {expected} texts")
        if not expected:
            return np.zeros((0, self._dimension), np.float32)
        if len({len(vector) for vector in vectors} | ({self._dimension} - {0})) > 1:
            raise EmbeddingFailed("vectors of unequal dimensions")
        matrix = np.asarray(vectors, np.float32)
        if not np.isfinite(matrix).all():
            raise EmbeddingFailed("a vector with a value that is not finite")
        self._dimension = matrix.shape[1]
        return matrix
