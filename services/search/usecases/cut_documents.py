"""Documents become what is stored of them: checked, cut into chunks, with a vector for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chassis.server.cpu import CpuPool
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s
from services.search.domain.chunking import Span, chunks_of
from services.search.domain.collection import Collection, CutDocument, Document
from services.search.domain.collection_errors import EmbedderChanged, InvalidDocument
from services.search.domain.tokenizers import Tokenizer
from services.search.usecases.embedders import Embedders


class CutDocuments:
    """Cuts and embeds. A document that came with chunks is taken as it is cut."""

    def __init__(self, embedders: Embedders, tokenize: Tokenizer, pool: CpuPool) -> None:
        self._embedders = embedders
        self._tokenize = tokenize
        self._pool = pool

    def check(self, collection: Collection, document: Document, dimension: int = 0) -> int:
        """The dimension of the vectors that came with a document, or else `dimension`.

        They must have `dimension`, unless that is 0, and be the collection's. Raises `InvalidDocument`.
        """
        dimension = dimension or collection.dimension
        for place, chunk in enumerate(document.chunks):
            field = f"chunks[{place}]"
            if not 0 <= chunk.span.start < chunk.span.end <= len(document.text):
                rule = f"must be a part of the text, which has {len(document.text)} characters, not {tuple(chunk.span)}"
                raise InvalidDocument(document.id, field, rule)
            if chunk.model != collection.model:
                rule = f"must be made by {collection.model!r}, not by {chunk.model!r}"
                raise InvalidDocument(document.id, f"{field}.embedding", rule)
            dimension = dimension or len(chunk.vector)
            if len(chunk.vector) != dimension:
                rule = f"must have dimension {dimension}, not {len(chunk.vector)}"
                raise InvalidDocument(document.id, f"{field}.embedding", rule)
            if not np.isfinite(chunk.vector).all():
                raise InvalidDocument(document.id, f"{field}.embedding", "must hold finite values only")
        return dimension

    async def digests(self, documents: Sequence[Document]) -> dict[str, bytes]:
        """The digest of each document, by id."""
        return await self._pool.run(lambda: {document.id: document.digest for document in documents})

    async def __call__(
        self, collection: Collection, documents: Sequence[Document], digests: Mapping[str, bytes]
    ) -> list[CutDocument]:
        """The documents ready to be stored. Raises `InvalidDocument`, `EmbedderChanged`, `EmbeddingFailed`."""
        dimension = collection.dimension
        for document in documents:
            dimension = self.check(collection, document, dimension)
        spans = await self._pool.run(self._spans, collection, documents)
        vectors = await self._vectors(collection, documents, spans, dimension)
        return [
            CutDocument(document, digests[document.id], cut, own)
            for document, cut, own in zip(documents, spans, vectors, strict=True)
        ]

    def _spans(self, collection: Collection, documents: Sequence[Document]) -> list[list[Span]]:
        def count(text: str) -> int:
            return len(self._tokenize(text))

        return [
            [chunk.span for chunk in document.chunks] or chunks_of(document.text, count, collection.chunking)
            for document in documents
        ]

    async def _vectors(
        self, collection: Collection, documents: Sequence[Document], spans: Sequence[Sequence[Span]], dimension: int
    ) -> list[Float32s]:
        texts = [
            document.text[slice(*span)]
            for document, cut in zip(documents, spans, strict=True)
            if not document.chunks
            for span in cut
        ]
        embedded = await self._embedded(collection, texts, dimension) if texts else np.zeros((0, dimension), np.float32)
        vectors: list[Float32s] = []
        start = 0
        for document, cut in zip(documents, spans, strict=True):
            if document.chunks:
                vectors.append(np.array([chunk.vector for chunk in document.chunks], np.float32))
            else:
                vectors.append(embedded[start : start + len(cut)])
                start += len(cut)
        return vectors

    async def _embedded(self, collection: Collection, texts: Sequence[str], dimension: int) -> Float32s:
        embed = await self._embedders.of(collection.model)
        if embed is None:
            raise EmbedderChanged(collection.name, collection.model, self._embedders.model)
        embedded = await embed.embed_documents(texts)
        if dimension and embedded.shape[1] != dimension:
            raise EmbeddingFailed(f"vectors of dimension {embedded.shape[1]}, the collection has {dimension}")
        return embedded
