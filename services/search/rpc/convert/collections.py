"""Conversion between the messages of collections and the domain."""

from __future__ import annotations

import numpy as np

from chassis.server.messages import decode_enum, encode
from hansei.search.v1 import collection_pb2, collection_service_pb2
from services.search.domain.chunking import DEFAULT_OVERLAP_SHARE, DEFAULT_TOKENS, Chunking, TextSpan
from services.search.domain.collection import (
    Backend,
    ChunkRef,
    ClientChunk,
    Collection,
    Document,
    DocumentSummary,
    Passage,
)
from services.search.domain.collection_errors import InvalidDocument
from services.search.domain.query import DEFAULT_TOP_K, ScoredItem, SearchQuery
from services.search.rpc.convert.search import FUSIONS, decode_vector, write_scores
from services.search.usecases.load_documents import DocumentFailure, LoadProgress
from services.search.usecases.rank_entries import RankingRequest

_ID_LENGTH = 80


def decode_settings(request: collection_service_pb2.CreateCollectionRequest) -> tuple[Backend, Chunking]:
    """Return the settings of a new collection; unset fields get defaults. Raises `ChunkOverlapTooLarge`."""
    backend = decode_enum(collection_pb2.CollectionBackend.DESCRIPTOR, request.backend)
    tokens = request.chunk_tokens if request.HasField("chunk_tokens") else DEFAULT_TOKENS
    overlap = request.chunk_overlap if request.HasField("chunk_overlap") else tokens // DEFAULT_OVERLAP_SHARE
    return Backend(backend or Backend.HYBRID), Chunking(tokens, overlap)


def encode_collection(collection: Collection) -> collection_pb2.Collection:
    """Return the message of a collection."""
    return encode(
        collection,
        collection_pb2.Collection,
        chunk_tokens=collection.chunking.tokens,
        chunk_overlap=collection.chunking.overlap,
        embedding_model=collection.model,
    )


def decode_document(message: collection_pb2.Document) -> Document:
    """Return the document of a message. Raises `InvalidDocument` for a vector of another size than declared."""
    return Document(
        message.id,
        message.text,
        tuple(sorted(message.metadata.items())),
        [_decode_chunk(message.id, number, chunk) for number, chunk in enumerate(message.chunks)],
    )


def _decode_chunk(document_id: str, number: int, message: collection_pb2.DocumentChunk) -> ClientChunk:
    embedding = message.embedding
    if len(embedding.values) != 4 * embedding.dimension:
        rule = f"has {len(embedding.values)} bytes, dimension {embedding.dimension} takes 4 bytes each"
        raise InvalidDocument(document_id, f"chunks[{number}].embedding", rule)
    return ClientChunk(TextSpan(message.start, message.end), embedding.model, np.frombuffer(embedding.values, "<f4"))


def encode_summary(summary: DocumentSummary) -> collection_pb2.DocumentSummary:
    """Return the message of a document without its text."""
    return encode(summary, collection_pb2.DocumentSummary, metadata=dict(summary.metadata))


def decode_query(message: collection_pb2.CollectionQuery) -> RankingRequest:
    """Return the query of a message; unset fields get defaults. Raises `WrongVector`."""
    return RankingRequest(
        SearchQuery(
            message.query_text,
            message.top_k if message.HasField("top_k") else DEFAULT_TOP_K,
            min_confidence=0.0,
            attributes=tuple(sorted(message.metadata.items())),
        ),
        message.alpha if message.HasField("alpha") else None,
        FUSIONS[message.fusion],
        decode_vector(message.embedding) if message.HasField("embedding") else None,
        message.explain,
    )


def write_passage(message: collection_pb2.Passage, scored: ScoredItem[ChunkRef], passage: Passage) -> None:
    """Write a result into its message."""
    message.document_id = scored.item.document_id
    message.chunk = scored.item.number
    message.start, message.end = passage.span
    message.text = passage.text
    message.metadata.update(passage.metadata)
    write_scores(message, scored)


def encode_progress(progress: LoadProgress) -> collection_service_pb2.LoadDocumentsResponse:
    """Return the message of a load's progress."""
    failures = [_encode_failure(failure) for failure in progress.failures]
    return encode(progress, collection_service_pb2.LoadDocumentsResponse, failures=failures)


def _encode_failure(failure: DocumentFailure) -> collection_pb2.DocumentFailure:
    return encode(
        failure.error, collection_pb2.DocumentFailure, position=failure.position, document_id=failure.id[:_ID_LENGTH]
    )
