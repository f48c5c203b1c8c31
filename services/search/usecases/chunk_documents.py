"""Prepares documents for the database: checks them, cuts them into chunks, and embeds the chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chassis.server.cpu import CpuPool
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s
from services.search.domain.chunking import TextSpan, split_into_chunks
from services.search.domain.collection import Backend, ChunkedDocument, Collection, Document
from services.search.domain.collection_errors import InvalidDocument
from services.search.domain.tokenizers import Tokenizer
from services.search.usecases.embedders import Embedders

PGVECTOR_DIMENSIONS = 16_000
"""The most dimensions of a vector in PostgreSQL."""


class ChunkDocuments:
    """Cuts and embeds documents; the chunks of a document that the client has cut stay as they are."""

    def __init__(self, embedders: Embedders, tokenize: Tokenizer, pool: CpuPool) -> None:
        self._embedders = embedders
        self._tokenize = tokenize
        self._pool = pool

    def check(self, collection: Collection, document: Document, dimension: int = 0) -> int:
        """Return the dimension of the client's vectors; without any, `dimension` or that of the collection.

        All vectors must have one dimension and be of the collection's model. Raises `InvalidDocument`.
        """
        dimension = dimension or collection.dimension
        for number, chunk in enumerate(document.chunks):
            field = f"chunks[{number}]"
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
            if collection.backend is Backend.PGVECTOR and dimension > PGVECTOR_DIMENSIONS:
                rule = f"must have at most {PGVECTOR_DIMENSIONS} dimensions with the backend PGVECTOR, not {dimension}"
                raise InvalidDocument(document.id, f"{field}.embedding", rule)
            if not np.isfinite(chunk.vector).all():
                raise InvalidDocument(document.id, f"{field}.embedding", "must hold finite values only")
        return dimension

    async def compute_digests(self, documents: Sequence[Document]) -> dict[str, bytes]:
        """Return the digest of each document, by id."""
        return await self._pool.run(lambda: {document.id: document.digest for document in documents})

    async def __call__(
        self, collection: Collection, documents: Sequence[Document], digests: Mapping[str, bytes]
    ) -> list[ChunkedDocument]:
        """Return the documents with chunks and vectors.

        Raises `InvalidDocument`, `EmbedderChanged`, `EmbeddingFailed`.
        """
        dimension = collection.dimension
        for document in documents:
            dimension = self.check(collection, document, dimension)
        spans = await self._pool.run(self._split, collection, documents)
        vectors = await self._embed(collection, documents, spans, dimension)
        return [
            ChunkedDocument(document, digests[document.id], document_spans, document_vectors)
            for document, document_spans, document_vectors in zip(documents, spans, vectors, strict=True)
        ]

    def _split(self, collection: Collection, documents: Sequence[Document]) -> list[list[TextSpan]]:
        def count(text: str) -> int:
            return len(self._tokenize(text))

        return [
            [chunk.span for chunk in document.chunks] or split_into_chunks(document.text, count, collection.chunking)
            for document in documents
        ]

    async def _embed(
        self,
        collection: Collection,
        documents: Sequence[Document],
        spans: Sequence[Sequence[TextSpan]],
        dimension: int,
    ) -> list[Float32s]:
        """Return the vectors of each document's chunks: the client's, or else new ones."""
        texts = [
            document.text[slice(*span)]
            for document, document_spans in zip(documents, spans, strict=True)
            if not document.chunks
            for span in document_spans
        ]
        embedded = np.zeros((0, dimension), np.float32)
        if texts:
            embedded = await (await self._embedders.get_for(collection)).embed_documents(texts)
            if dimension and embedded.shape[1] != dimension:
                raise EmbeddingFailed(f"vectors of dimension {embedded.shape[1]}, the collection has {dimension}")
        vectors: list[Float32s] = []
        start = 0
        for document, document_spans in zip(documents, spans, strict=True):
            if document.chunks:
                vectors.append(np.array([chunk.vector for chunk in document.chunks], np.float32))
            else:
                vectors.append(embedded[start : start + len(document_spans)])
                start += len(document_spans)
        return vectors
