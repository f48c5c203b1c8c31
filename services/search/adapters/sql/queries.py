"""The statements on collections and documents, and the rows as values of the domain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Select, bindparam, case, delete, func, select, update

from libs.embedding.model import Float32s
from libs.storage.engines import insert_for
from services.search.adapters.sql.schema import collection as collections
from services.search.adapters.sql.schema import document as documents
from services.search.domain.chunking import Chunking, Span
from services.search.domain.collection import (
    Backend,
    ChunkRef,
    Collection,
    CutDocument,
    Found,
    Passages,
    Stored,
    Summary,
    Writing,
)
from services.search.domain.collection_errors import CollectionNotFound, InvalidDocument
from services.search.domain.query import Attributes

WHOLE_CHARACTERS = 20_000
"""Texts up to this size are read whole for one of their chunks: another statement takes longer."""

# SQLite's limit of variables in a statement, with a margin.
IDS_PER_STATEMENT = 500


def select_collection(connection: Connection, name: str, *, lock: bool = False) -> Collection:
    """Return a collection; with `lock` it stays as it is until the transaction ends. Raises CollectionNotFound."""
    query = select(collections).where(collections.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise CollectionNotFound(name)
    return to_collection(row)


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


def where_collection(query: Select[Any], collection: Collection) -> Select[Any]:
    """Restrict a query to the documents of one collection."""
    return query.where(documents.c.collection == collection.number)


def select_documents(connection: Connection, number: int, ids: Sequence[str]) -> list[Row[Any]]:
    """Return id, digest, chunks and presence of those of these documents that have a row."""
    found: list[Row[Any]] = []
    present = case((documents.c.text.is_(None), 0), else_=1).label("present")
    query = select(documents.c.id, documents.c.digest, documents.c.chunks, present)
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        some = query.where(documents.c.collection == number, documents.c.id.in_(ids[start : start + IDS_PER_STATEMENT]))
        found.extend(connection.execute(some))
    return found


def update_counts(
    connection: Connection, there: Collection, revisions: int, documents: int, chunks: int, dimension: int
) -> None:
    """Add to the counts of a locked collection: revisions are committed in the order of their numbers."""
    connection.execute(
        update(collections)
        .where(collections.c.number == there.number)
        .values(
            revision=there.revision + revisions,
            documents=there.documents + documents,
            chunks=there.chunks + chunks,
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
    case((documents.c.characters <= WHOLE_CHARACTERS, documents.c.text)).label("text"),
)
DELETE_DOCUMENT = (
    update(documents)
    .where(documents.c.collection == bindparam("of"), documents.c.id == bindparam("which"))
    .values(
        revision=bindparam("at"), chunks=0, characters=0, digest=b"", metadata="{}", spans=b"", text=None, vectors=b""
    )
)


def write_documents(connection: Connection, there: Collection, cut: Sequence[CutDocument]) -> Stored:
    """Add or replace documents of a locked collection; those of the same digest stay."""
    ids = [document.document.id for document in cut]
    standing = {row.id: row for row in select_documents(connection, there.number, ids)}
    changed = [
        document
        for document in cut
        if (row := standing.get(document.document.id)) is None or not row.present or row.digest != document.digest
    ]
    if changed:
        statement = insert_for(connection.dialect.name)(documents)
        newer = {column.name: statement.excluded[column.name] for column in documents.c if not column.primary_key}
        statement = statement.on_conflict_do_update(index_elements=["collection", "id"], set_=newer)
        numbered = enumerate(changed, there.revision + 1)
        connection.execute(statement, [_document_row(document, there.number, at) for at, document in numbered])
    before = [row for document in changed if (row := standing.get(document.document.id)) is not None and row.present]
    chunks = sum(len(document.spans) for document in changed)
    dimension = _vector_dimension(there, changed)
    update_counts(
        connection,
        there,
        len(changed),
        len(changed) - len(before),
        chunks - sum(row.chunks for row in before),
        dimension,
    )
    return Stored(len(changed), len(cut) - len(changed), chunks, select_collection(connection, there.name))


def _vector_dimension(there: Collection, changed: Sequence[CutDocument]) -> int:
    """Return the dimension of all vectors; another writer may have set it meanwhile. Raises InvalidDocument."""
    for document in changed:
        if there.dimension not in (0, document.vectors.shape[1]):
            rule = f"must have vectors of dimension {there.dimension}, not {document.vectors.shape[1]}"
            raise InvalidDocument(document.document.id, "chunks", rule)
    return int(changed[0].vectors.shape[1]) if changed else there.dimension


def _document_row(cut: CutDocument, number: int, revision: int) -> dict[str, object]:
    return {
        "collection": number,
        "id": cut.document.id,
        "revision": revision,
        "chunks": len(cut.spans),
        "characters": len(cut.document.text),
        "digest": cut.digest,
        "metadata": json.dumps(dict(cut.document.metadata), ensure_ascii=False),
        "spans": np.asarray(cut.spans, "<i4").tobytes(),
        "text": cut.document.text,
        "vectors": encode_vectors(cut.vectors),
    }


def to_summary(row: Row[Any]) -> Summary:
    """Return the summary of a row."""
    return Summary(row.id, _decode_metadata(row.metadata), row.characters, row.chunks, row.revision)


def _decode_metadata(text: str) -> Attributes:
    return tuple(json.loads(text).items())


def _decode_spans(packed: bytes) -> list[Span]:
    return [Span(*pair) for pair in np.frombuffer(packed, "<i4").reshape(-1, 2).tolist()]


def to_writing(row: Row[Any]) -> Writing:
    """Return the writing of a row."""
    metadata, spans = _decode_metadata(row.metadata), _decode_spans(row.spans)
    vectors = None if row.text is None else np.frombuffer(row.vectors, "<f4").reshape(len(spans), -1)
    return Writing(row.id, row.revision, metadata, row.text or "", spans, vectors)


def select_passages(connection: Connection, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
    """Return the texts of chunks; of long documents only the parts are read."""
    rows: dict[tuple[str, int], Row[Any]] = {}
    ids = list(dict.fromkeys(ref.document_id for ref in refs))
    written = where_collection(_PASSAGES, collection)
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        some = connection.execute(written.where(documents.c.id.in_(ids[start : start + IDS_PER_STATEMENT])))
        rows |= {(row.id, row.revision): row for row in some}
    found: dict[ChunkRef, Found] = {}
    for ref in refs:
        row = rows.get((ref.document_id, ref.revision))
        if row is not None:
            span = _decode_spans(row.spans)[ref.number]
            if row.characters > WHOLE_CHARACTERS:
                part = _select_part(connection, collection, ref.document_id, span)
            else:
                part = (row.text or "")[slice(*span)]
            found[ref] = Found(span, part, _decode_metadata(row.metadata))
    return found


def _select_part(connection: Connection, collection: Collection, document_id: str, span: Span) -> str:
    part = select(func.substr(documents.c.text, span.start + 1, span.end - span.start))
    return connection.execute(where_collection(part, collection).where(documents.c.id == document_id)).scalar() or ""
