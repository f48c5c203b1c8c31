"""Statements on collections and documents, and the conversion of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Select, bindparam, case, delete, func, select, update

from libs.embedding.model import Float32s
from libs.storage.engines import get_insert
from services.search.adapters.sql.schema import collection as collections
from services.search.adapters.sql.schema import document as documents
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import (
    Backend,
    ChunkedDocument,
    ChunkRef,
    Collection,
    DocumentRevision,
    DocumentSummary,
    Passage,
    Passages,
    WriteResult,
)
from services.search.domain.collection_errors import CollectionNotFound, InvalidDocument
from services.search.domain.query import Attributes

INLINE_CHARACTERS = 20_000
"""Texts up to this size are read completely for one of their chunks: another statement takes longer."""

# SQLite's limit of variables in a statement, with a margin.
IDS_PER_STATEMENT = 500


def select_collection(connection: Connection, name: str, *, lock: bool = False) -> Collection:
    """Return a collection; `lock` locks it until the transaction ends. Raises `CollectionNotFound`."""
    query = select(collections).where(collections.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise CollectionNotFound(name)
    return to_collection(row)


def lock_collection(connection: Connection, collection: Collection) -> Collection:
    """Lock a collection and return its newest state. Raises `CollectionNotFound`, also if another has its name."""
    locked = select_collection(connection, collection.name, lock=True)
    if locked.number != collection.number:
        raise CollectionNotFound(collection.name)
    return locked


def to_collection(row: Row[Any]) -> Collection:
    """Return the collection of a row."""
    return Collection(
        number=row.number,
        key=row.key,
        name=row.name,
        backend=Backend(row.backend),
        chunking=Chunking(row.chunk_tokens, row.chunk_overlap),
        model=row.model,
        created_at=row.created_at,
        dimension=row.dimension,
        revision=row.revision,
        documents=row.documents,
        chunks=row.chunks,
    )


def filter_collection(query: Select[Any], collection: Collection) -> Select[Any]:
    """Restrict a query to the documents of one collection."""
    return query.where(documents.c.collection == collection.number)


def select_documents(connection: Connection, number: int, ids: Sequence[str]) -> list[Row[Any]]:
    """Return id, digest, chunks and presence of those of these documents that have a row; a tombstone is one."""
    rows: list[Row[Any]] = []
    present = case((documents.c.text.is_(None), 0), else_=1).label("present")
    query = select(documents.c.id, documents.c.digest, documents.c.chunks, present)
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        some = query.where(documents.c.collection == number, documents.c.id.in_(ids[start : start + IDS_PER_STATEMENT]))
        rows.extend(connection.execute(some))
    return rows


def update_counts(
    connection: Connection, locked: Collection, revisions: int, documents: int, chunks: int, dimension: int
) -> None:
    """Add to the counts of a locked collection. The lock keeps revisions in the order of their numbers."""
    connection.execute(
        update(collections)
        .where(collections.c.number == locked.number)
        .values(
            revision=locked.revision + revisions,
            documents=locked.documents + documents,
            chunks=locked.chunks + chunks,
            dimension=dimension,
        )
    )


def delete_collection(connection: Connection, collection: Collection) -> None:
    """Delete the collection and its documents."""
    connection.execute(delete(documents).where(documents.c.collection == collection.number))
    connection.execute(delete(collections).where(collections.c.number == collection.number))


def encode_vectors(vectors: Float32s) -> bytes:
    """Return vectors as little-endian float32, one row a span."""
    return vectors.astype("<f4").tobytes()


SUMMARY_COLUMNS = (
    documents.c.id,
    documents.c.revision,
    documents.c.chunks,
    documents.c.characters,
    documents.c.metadata,
)
_PASSAGES = select(
    documents.c.id,
    documents.c.revision,
    documents.c.characters,
    documents.c.spans,
    documents.c.metadata,
    case((documents.c.characters <= INLINE_CHARACTERS, documents.c.text)).label("text"),
)
DELETE_DOCUMENT = (
    update(documents)
    .where(documents.c.collection == bindparam("in_collection"), documents.c.id == bindparam("with_id"))
    .values(
        revision=bindparam("new_revision"),
        chunks=0,
        characters=0,
        digest=b"",
        metadata="{}",
        spans=b"",
        text=None,
        vectors=b"",
    )
)


def upsert_documents(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows of documents; they replace those of the same id."""
    statement = get_insert(connection.dialect.name)(documents)
    columns = {column.name: statement.excluded[column.name] for column in documents.c if not column.primary_key}
    connection.execute(statement.on_conflict_do_update(index_elements=["collection", "id"], set_=columns), rows)


def write_documents(connection: Connection, locked: Collection, chunked: Sequence[ChunkedDocument]) -> WriteResult:
    """Add or replace documents of a locked collection; those with an equal digest stay."""
    ids = [document.document.id for document in chunked]
    present = {row.id: row for row in select_documents(connection, locked.number, ids) if row.present}
    changed = [
        document
        for document in chunked
        if (row := present.get(document.document.id)) is None or row.digest != document.digest
    ]
    if changed:
        numbered = enumerate(changed, locked.revision + 1)
        upsert_documents(
            connection, [_build_document_row(document, locked.number, number) for number, document in numbered]
        )
    replaced = [row for document in changed if (row := present.get(document.document.id)) is not None]
    chunks = sum(len(document.spans) for document in changed)
    update_counts(
        connection,
        locked,
        len(changed),
        len(changed) - len(replaced),
        chunks - sum(row.chunks for row in replaced),
        _check_dimension(locked, changed),
    )
    return WriteResult(len(changed), len(chunked) - len(changed), chunks, select_collection(connection, locked.name))


def _check_dimension(locked: Collection, changed: Sequence[ChunkedDocument]) -> int:
    """Return the dimension of all vectors; another writer may have set it meanwhile. Raises `InvalidDocument`."""
    for document in changed:
        if locked.dimension not in (0, document.vectors.shape[1]):
            rule = f"must have vectors of dimension {locked.dimension}, not {document.vectors.shape[1]}"
            raise InvalidDocument(document.document.id, "chunks", rule)
    return int(changed[0].vectors.shape[1]) if changed else locked.dimension


def _build_document_row(chunked: ChunkedDocument, number: int, revision: int) -> dict[str, object]:
    return {
        "collection": number,
        "id": chunked.document.id,
        "revision": revision,
        "chunks": len(chunked.spans),
        "characters": len(chunked.document.text),
        "digest": chunked.digest,
        "metadata": json.dumps(dict(chunked.document.metadata), ensure_ascii=False),
        "spans": np.asarray(chunked.spans, "<i4").tobytes(),
        "text": chunked.document.text,
        "vectors": encode_vectors(chunked.vectors),
    }


def to_summary(row: Row[Any]) -> DocumentSummary:
    """Return the summary of a row."""
    return DocumentSummary(row.id, _decode_metadata(row.metadata), row.characters, row.chunks, row.revision)


def _decode_metadata(text: str) -> Attributes:
    return tuple(json.loads(text).items())


def _decode_spans(encoded: bytes) -> list[TextSpan]:
    return [TextSpan(*pair) for pair in np.frombuffer(encoded, "<i4").reshape(-1, 2).tolist()]


def to_document_revision(row: Row[Any]) -> DocumentRevision:
    """Return the revision of a row; a tombstone has no vectors."""
    metadata, spans = _decode_metadata(row.metadata), _decode_spans(row.spans)
    vectors = None if row.text is None else np.frombuffer(row.vectors, "<f4").reshape(len(spans), -1)
    return DocumentRevision(row.id, row.revision, metadata, row.text or "", spans, vectors)


def select_passages(connection: Connection, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
    """Return the texts of chunks; of long documents only these parts are read."""
    rows: dict[tuple[str, int], Row[Any]] = {}
    ids = list(dict.fromkeys(ref.document_id for ref in refs))
    query = filter_collection(_PASSAGES, collection)
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        some = connection.execute(query.where(documents.c.id.in_(ids[start : start + IDS_PER_STATEMENT])))
        rows |= {(row.id, row.revision): row for row in some}
    passages: dict[ChunkRef, Passage] = {}
    for ref in refs:
        row = rows.get((ref.document_id, ref.revision))
        if row is not None:
            span = _decode_spans(row.spans)[ref.number]
            if row.characters > INLINE_CHARACTERS:
                part = _select_part(connection, collection, ref.document_id, span)
            else:
                part = (row.text or "")[slice(*span)]
            passages[ref] = Passage(span, part, _decode_metadata(row.metadata))
    return passages


def _select_part(connection: Connection, collection: Collection, document_id: str, span: TextSpan) -> str:
    part = select(func.substr(documents.c.text, span.start + 1, span.end - span.start))
    return connection.execute(filter_collection(part, collection).where(documents.c.id == document_id)).scalar() or ""
