"""Between the messages of collections and the domain."""

from __future__ import annotations

import numpy as np

from hansei.search.v1 import collection_pb2, collection_service_pb2
from services.search.domain.chunking import DEFAULT_OVERLAP_SHARE, DEFAULT_TOKENS, Chunking, Span
from services.search.domain.collection import Backend, ChunkRef, Collection, Document, Found, GivenChunk, Summary
from services.search.domain.collection_errors import InvalidDocument
from services.search.domain.query import DEFAULT_TOP_K, Scored, SearchQuery
from services.search.rpc.convert.search import FUSIONS, vector_from, write_scores
from services.search.usecases.load_documents import Failure, Progress
from services.search.usecases.search_playbook import Ask

_BACKENDS = {
    collection_pb2.COLLECTION_BACKEND_UNSPECIFIED: Backend.HYBRID,
    collection_pb2.COLLECTION_BACKEND_HYBRID: Backend.HYBRID,
    collection_pb2.COLLECTION_BACKEND_QDRANT: Backend.QDRANT,
}
_BACKENDS_BACK = {
    Backend.HYBRID: collection_pb2.COLLECTION_BACKEND_HYBRID,
    Backend.QDRANT: collection_pb2.COLLECTION_BACKEND_QDRANT,
}
_SHOWN_ID = 80


def settings_from(request: collection_service_pb2.CreateCollectionRequest) -> tuple[Backend, Chunking]:
    """How a collection is to be; unset fields get their defaults. Raises `ChunkOverlapTooLarge`."""
    tokens = request.chunk_tokens if request.HasField("chunk_tokens") else DEFAULT_TOKENS
    overlap = request.chunk_overlap if request.HasField("chunk_overlap") else tokens // DEFAULT_OVERLAP_SHARE
    return _BACKENDS[request.backend], Chunking(tokens, overlap)


def collection_message(collection: Collection) -> collection_pb2.Collection:
    """A collection as it stands."""
    message = collection_pb2.Collection(
        name=collection.name,
        backend=_BACKENDS_BACK[collection.backend],
        chunk_tokens=collection.chunking.tokens,
        chunk_overlap=collection.chunking.overlap,
        embedding_model=collection.model,
        dimension=collection.dimension,
        revision=collection.revision,
        documents=collection.documents,
        chunks=collection.chunks,
    )
    message.created_at.FromDatetime(collection.created_at)
    return message


def document_from(message: collection_pb2.Document) -> Document:
    """A document that was sent. Raises `InvalidDocument` for a vector that is not what it says."""
    return Document(
        message.id,
        message.text,
        tuple(sorted(message.metadata.items())),
        [_chunk(message.id, place, chunk) for place, chunk in enumerate(message.chunks)],
    )


def _chunk(document_id: str, place: int, message: collection_pb2.DocumentChunk) -> GivenChunk:
    given = message.embedding
    if len(given.values) != 4 * given.dimension:
        rule = f"has {len(given.values)} bytes, dimension {given.dimension} takes 4 bytes each"
        raise InvalidDocument(document_id, f"chunks[{place}].embedding", rule)
    return GivenChunk(Span(message.start, message.end), given.model, np.frombuffer(given.values, "<f4"))


def summary_message(summary: Summary) -> collection_pb2.DocumentSummary:
    """What a list says of a document."""
    return collection_pb2.DocumentSummary(
        id=summary.id,
        metadata=dict(summary.metadata),
        characters=summary.characters,
        chunks=summary.chunks,
        revision=summary.revision,
    )


def ask_from(message: collection_pb2.CollectionQuery) -> Ask:
    """A query over a collection; unset fields get their defaults. Raises `WrongVector`."""
    return Ask(
        SearchQuery(
            message.query_text,
            message.top_k if message.HasField("top_k") else DEFAULT_TOP_K,
            min_confidence=0.0,
            attributes=tuple(sorted(message.metadata.items())),
        ),
        message.alpha if message.HasField("alpha") else None,
        FUSIONS[message.fusion],
        vector_from(message.embedding) if message.HasField("embedding") else None,
        message.explain,
    )


def write_passage(message: collection_pb2.Passage, scored: Scored[ChunkRef], found: Found) -> None:
    """Write a chunk that was found."""
    message.document_id = scored.item.document_id
    message.chunk = scored.item.number
    message.start, message.end = found.span
    message.text = found.text
    message.metadata.update(found.metadata)
    write_scores(message, scored)


def progress_message(progress: Progress) -> collection_service_pb2.LoadDocumentsResponse:
    """A batch of a load that is done."""
    return collection_service_pb2.LoadDocumentsResponse(
        processed=progress.processed,
        stored=progress.stored,
        unchanged=progress.unchanged,
        failed=progress.failed,
        chunks=progress.chunks,
        failures=[_failure(failure) for failure in progress.failures],
        revision=progress.revision,
    )


def _failure(failure: Failure) -> collection_pb2.DocumentFailure:
    return collection_pb2.DocumentFailure(
        position=failure.position,
        document_id=failure.id[:_SHOWN_ID],
        reason=failure.error.reason,
        message=failure.error.message,
    )
