"""Rows of collections and documents, as every transaction reads and counts them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, case, delete, select, update

from services.search.adapters.schema import collection as collections
from services.search.adapters.schema import document as documents
from services.search.domain.chunking import Chunking
from services.search.domain.collection import Backend, Collection
from services.search.domain.collection_errors import CollectionNotFound
from services.search.domain.embedding import Float32s

# SQLite's limit of variables in a statement, with room to spare.
AT_ONCE = 500


def collection_named(connection: Connection, name: str, *, lock: bool = False) -> Collection:
    """The collection as it stands; with `lock` it stays so until the transaction ends. Raises `CollectionNotFound`."""
    query = select(collections).where(collections.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise CollectionNotFound(name)
    return collection_of(row)


def collection_of(row: Row[Any]) -> Collection:
    """The collection that a row tells of."""
    return Collection(
        number=row.number,
        key=row.key,
        name=row.name,
        backend=Backend(row.backend),
        chunking=Chunking(row.chunk_tokens, row.chunk_overlap),
        model=row.model,
        created_at=datetime.fromtimestamp(row.created / 1_000_000, UTC),
        dimension=row.dimension,
        revision=row.revision,
        documents=row.documents,
        chunks=row.chunks,
    )


def in_collection(query: Select[Any], collection: Collection) -> Select[Any]:
    """The query, of the documents of one collection only."""
    return query.where(documents.c.collection == collection.number)


def rows_there(connection: Connection, number: int, ids: Sequence[str]) -> list[Row[Any]]:
    """Id, digest, chunks and presence of those of these documents that have a row."""
    found: list[Row[Any]] = []
    present = case((documents.c.text.is_(None), 0), else_=1).label("present")
    query = select(documents.c.id, documents.c.digest, documents.c.chunks, present)
    for start in range(0, len(ids), AT_ONCE):
        some = query.where(documents.c.collection == number, documents.c.id.in_(ids[start : start + AT_ONCE]))
        found.extend(connection.execute(some))
    return found


def advance(
    connection: Connection, there: Collection, revisions: int, documents: int, chunks: int, dimension: int
) -> None:
    """Count what happened. The row is locked: revisions are committed in the order of their numbers."""
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


def packed_vectors(vectors: Float32s) -> bytes:
    """Vectors as they are kept: little-endian float32, one row a span."""
    return vectors.astype("<f4").tobytes()
