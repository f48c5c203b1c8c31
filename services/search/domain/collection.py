"""Collections of documents.

Every write and deletion of a document is a revision of its collection, numbered from 1. A collection consists of the
newest revision of each document, so an index at revision r becomes current by applying the documents written since r:
after a restart, in another replica, or in another backend.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from libs.embedding.model import Float32s
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.query import Attributes


class Backend(StrEnum):
    """The index that holds the chunks of a collection."""

    HYBRID = "hybrid"
    QDRANT = "qdrant"
    PGVECTOR = "pgvector"


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection at `revision`.

    ``number`` and ``key`` are never reused: a collection that is deleted and created again under the same name has
    others. ``dimension`` is 0 until the first document.
    """

    number: int
    key: str
    name: str
    backend: Backend
    chunking: Chunking
    model: str
    created_at: datetime
    dimension: int = 0
    revision: int = 0
    documents: int = 0
    chunks: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class ClientChunk:
    """A chunk that the client has cut: its span, and its vector of a model, float32."""

    span: TextSpan
    model: str
    vector: Float32s


@dataclass(frozen=True, eq=False, slots=True)
class Document:
    """A document of a request. Without `chunks` the service cuts and embeds it."""

    id: str
    text: str
    metadata: Attributes = ()
    chunks: Sequence[ClientChunk] = ()

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 of everything but the id, 32 bytes: documents with equal digests are equal."""
        digest = hashlib.sha256(json.dumps([self.text, sorted(self.metadata)], ensure_ascii=False).encode())
        for chunk in self.chunks:
            digest.update(f"\n{chunk.span.start} {chunk.span.end} {chunk.model}\n".encode())
            digest.update(chunk.vector.tobytes())
        return digest.digest()


@dataclass(frozen=True, eq=False, slots=True)
class ChunkedDocument:
    """A document with its chunks: one vector a span, float32, shape (len(spans), dimension)."""

    document: Document
    digest: bytes
    spans: Sequence[TextSpan]
    vectors: Float32s


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The documents and chunks that a call wrote, the documents that it left unchanged, and the collection after it."""

    stored: int
    unchanged: int
    chunks: int
    collection: Collection


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """A document without its text."""

    id: str
    metadata: Attributes
    characters: int
    chunks: int
    revision: int


class DocumentRevision(NamedTuple):
    """The newest revision of one document, as indexes apply it; `vectors` is None after the deletion."""

    document_id: str
    revision: int
    metadata: Attributes
    text: str
    spans: Sequence[TextSpan]
    vectors: Float32s | None


class ChunkRef(NamedTuple):
    """The `number`-th chunk of the document that was written in `revision`: the item of an index."""

    document_id: str
    revision: int
    number: int

    @property
    def id(self) -> str:
        """Return the id of its entry in an index; the document's next revision uses it again."""
        return build_chunk_id(self.document_id, self.number)

    @property
    def serialized_form(self) -> bytes:
        """Return the reference as bytes, for `parse_chunk_ref`."""
        return f"{self.revision} {self.number} {self.document_id}".encode()


def parse_chunk_ref(serialized_form: bytes) -> ChunkRef:
    """Parse the bytes of `ChunkRef.serialized_form`."""
    revision, number, document_id = serialized_form.decode().split(" ", 2)
    return ChunkRef(document_id, int(revision), int(number))


def build_chunk_id(document_id: str, number: int) -> str:
    """Return the id of a document's `number`-th chunk. Ids of documents contain no control characters."""
    return f"{document_id}\0{number}"


class Passage(NamedTuple):
    """The text of a chunk, with its span and the metadata of its document."""

    span: TextSpan
    text: str
    metadata: Attributes


Passages = Mapping[ChunkRef, Passage]
"""Passages of those chunks whose documents have not changed."""
