"""Collections of documents, and what is kept of a document.

Every writing and deletion of a document is a revision of its collection, numbered from 1. What a collection holds is
the newest revision of each document, so an index that stands at revision r becomes current by taking up the documents
written since r: after a restart, in another replica, or in another backend.
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
from services.search.domain.chunking import Chunking, Span
from services.search.domain.query import Attributes


class Backend(StrEnum):
    """Where the chunks of a collection are indexed."""

    HYBRID = "hybrid"
    QDRANT = "qdrant"


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection as it stands at `revision`.

    ``number`` and ``key`` identify it for ever: a collection that is deleted and made again under the same name is
    another one. ``dimension`` is 0 while there never was a document.
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
class GivenChunk:
    """A chunk that came with its document: its place, and the vector a model made of it, float32."""

    span: Span
    model: str
    vector: Float32s


@dataclass(frozen=True, eq=False, slots=True)
class Document:
    """A document as it came. Without `chunks` the service cuts and embeds it."""

    id: str
    text: str
    metadata: Attributes = ()
    chunks: Sequence[GivenChunk] = ()

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything but the id, 32 bytes: what has the same one is the same document."""
        digest = hashlib.sha256(json.dumps([self.text, sorted(self.metadata)], ensure_ascii=False).encode())
        for chunk in self.chunks:
            digest.update(f"\n{chunk.span.start} {chunk.span.end} {chunk.model}\n".encode())
            digest.update(chunk.vector.tobytes())
        return digest.digest()


@dataclass(frozen=True, eq=False, slots=True)
class CutDocument:
    """A document ready to be stored: one vector a span, float32, shape (len(spans), dimension)."""

    document: Document
    digest: bytes
    spans: Sequence[Span]
    vectors: Float32s


@dataclass(frozen=True, slots=True)
class Stored:
    """What a writing did: how many documents it wrote, how many were the same, and how it left the collection."""

    stored: int
    unchanged: int
    chunks: int
    collection: Collection


@dataclass(frozen=True, slots=True)
class Summary:
    """What a list says of a document."""

    id: str
    metadata: Attributes
    characters: int
    chunks: int
    revision: int


class Writing(NamedTuple):
    """The newest revision of one document, as an index takes it up; no `vectors` when the document was deleted."""

    document_id: str
    revision: int
    metadata: Attributes
    text: str
    spans: Sequence[Span]
    vectors: Float32s | None


class ChunkRef(NamedTuple):
    """Which chunk was found: the `number`-th of the document that was written in `revision`. What an index holds."""

    document_id: str
    revision: int
    number: int

    @property
    def id(self) -> str:
        """Id of its entry in an index; the next writing of the document uses it again."""
        return chunk_id(self.document_id, self.number)

    @property
    def origin(self) -> bytes:
        """All of it, to be read back by `chunk_of_bytes`."""
        return f"{self.revision} {self.number} {self.document_id}".encode()


def chunk_of_bytes(origin: bytes) -> ChunkRef:
    """The chunk that `origin` tells of."""
    revision, number, document_id = origin.decode().split(" ", 2)
    return ChunkRef(document_id, int(revision), int(number))


def chunk_id(document_id: str, number: int) -> str:
    """Id of a document's `number`-th chunk in an index. Ids of documents hold no control characters."""
    return f"{document_id}\0{number}"


class Found(NamedTuple):
    """What the database says of a chunk that was found."""

    span: Span
    text: str
    metadata: Attributes


Passages = Mapping[ChunkRef, Found]
"""Those chunks that are still there."""
