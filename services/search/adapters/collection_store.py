"""Collections and documents in the service's database."""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection, Row, bindparam, case, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from libs.sql.engines import insert_of, sqlite_code
from services.search.adapters import succession
from services.search.adapters.collection_rows import (
    AT_ONCE,
    advance,
    collection_named,
    collection_of,
    delete_collection,
    in_collection,
    packed_vectors,
    rows_there,
)
from services.search.adapters.database import Database
from services.search.adapters.schema import collection as collections
from services.search.adapters.schema import document as documents
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
from services.search.domain.collection_errors import (
    CollectionNotFound,
    DocumentNotFound,
    InvalidDocument,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
)
from services.search.domain.query import Attributes

T = TypeVar("T")

WRITINGS_AT_ONCE = 256
"""Documents an index takes up in one step; each is at most some megabytes."""

WHOLE_CHARACTERS = 20_000
"""Up to this a text is read whole for the sake of one of its chunks: another statement takes longer."""

_Work = Callable[[Connection], T]
_log = logging.getLogger(__name__)


class SqlCollectionStore:
    """Implements `CollectionStore`. `clock` gives aware UTC times."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock
        self._insert = insert_of(database.url.get_backend_name())

    async def create(self, name: str, backend: Backend, chunking: Chunking, model: str) -> Collection:
        """Make a collection, or return the one of that name."""
        row = {
            "key": secrets.token_hex(16),
            "name": name,
            "backend": backend.value,
            "chunk_tokens": chunking.tokens,
            "chunk_overlap": chunking.overlap,
            "model": model,
            "created": round(self._clock().timestamp() * 1_000_000),
            "dimension": 0,
            "revision": 0,
            "documents": 0,
            "chunks": 0,
        }

        def work(connection: Connection) -> Collection:
            connection.execute(self._insert(collections).on_conflict_do_nothing(index_elements=["name"]), row)
            return collection_named(connection, name)

        return await self._written(work)

    async def get(self, name: str) -> Collection:
        """The collection as it stands. Raises `CollectionNotFound`."""
        return await self._read(lambda connection: collection_named(connection, name))

    async def page(self, after: str, limit: int, prefix: str = "") -> list[Collection]:
        """Collections whose name sorts behind `after` and begins with `prefix`, by name."""
        name = collections.c.name  # sorted by code points: no character of a name comes after `~`
        query = select(collections).where(name > after, name >= prefix, name < f"{prefix}~")
        query = query.order_by(name).limit(limit)
        return await self._read(lambda connection: [collection_of(row) for row in connection.execute(query)])

    async def drop(self, name: str) -> Collection:
        """Delete a collection and all its documents. Raises `CollectionNotFound`."""

        def work(connection: Connection) -> Collection:
            dropped = collection_named(connection, name, lock=True)
            succession.abandon(connection, dropped)
            delete_collection(connection, dropped)
            return dropped

        return await self._written(work)

    async def digests(self, collection: Collection, ids: Sequence[str]) -> dict[str, bytes]:
        """The digest of each of these documents that is there."""

        def work(connection: Connection) -> dict[str, bytes]:
            return {row.id: row.digest for row in rows_there(connection, collection.number, ids) if row.present}

        return await self._read(work)

    async def write(self, collection: Collection, documents: Sequence[CutDocument]) -> Stored:
        """Add or replace all of these documents or none. Raises `CollectionNotFound`, also for one made again."""

        def work(connection: Connection) -> Stored:
            there = collection_named(connection, collection.name, lock=True)
            if there.number != collection.number:
                raise CollectionNotFound(collection.name)
            return _write(connection, self._insert, there, documents)

        return await self._written(work)

    async def delete(self, name: str, ids: Sequence[str]) -> tuple[int, Collection]:
        """Delete these documents; how many there were, and what is left. Raises `CollectionNotFound`."""

        def work(connection: Connection) -> tuple[int, Collection]:
            there = collection_named(connection, name, lock=True)
            gone = [row for row in rows_there(connection, there.number, sorted(set(ids))) if row.present]
            rows = [
                {"of": there.number, "which": row.id, "at": there.revision + place} for place, row in enumerate(gone, 1)
            ]
            if rows:
                connection.execute(_BURY, rows)
            advance(connection, there, len(gone), -len(gone), -sum(row.chunks for row in gone), there.dimension)
            return len(gone), collection_named(connection, name)

        return await self._written(work)

    async def read(self, name: str, document_id: str) -> tuple[Summary, str]:
        """A document and its text. Raises `CollectionNotFound`, `DocumentNotFound`."""

        def work(connection: Connection) -> tuple[Summary, str]:
            there = collection_named(connection, name)
            columns = select(*_SUMMARY, documents.c.text)
            row = connection.execute(in_collection(columns, there).where(documents.c.id == document_id)).first()
            if row is None or row.text is None:
                raise DocumentNotFound(name, document_id)
            return _summary(row), row.text

        return await self._read(work)

    async def summaries(self, name: str, after: str, limit: int) -> list[Summary]:
        """Documents whose id sorts behind `after`, by id. Raises `CollectionNotFound`."""

        def work(connection: Connection) -> list[Summary]:
            listed = in_collection(select(*_SUMMARY), collection_named(connection, name))
            listed = listed.where(documents.c.id > after, documents.c.text.is_not(None))
            return [_summary(row) for row in connection.execute(listed.order_by(documents.c.id).limit(limit))]

        return await self._read(work)

    async def writings(self, collection: Collection, after: int) -> list[Writing]:
        """Some of the documents written or deleted after revision `after`, oldest first."""
        query = in_collection(select(documents), collection).where(documents.c.revision > after)
        query = query.order_by(documents.c.revision).limit(WRITINGS_AT_ONCE)
        return await self._read(lambda connection: [_writing(row) for row in connection.execute(query)])

    async def passages(self, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
        """The text of these chunks, as far as their documents are still what they were."""

        def work(connection: Connection) -> Passages:
            return _passages(connection, collection, refs)

        return await self._read(work) if refs else {}

    async def successor(self, collection: Collection, model: str) -> Collection:
        """Where the collection is embedded anew by `model`: begun, or as far as it is."""
        return await self._written(lambda connection: succession.begin(connection, collection, model))

    async def copy(self, collection: Collection, successor: Collection, writings: Sequence[Writing]) -> Collection:
        """Give the successor these writings of the collection, with new vectors. Raises `CollectionNotFound`."""
        return await self._written(
            lambda connection: succession.copy(connection, self._insert, collection, successor, writings)
        )

    async def succeed(self, collection: Collection, successor: Collection) -> bool:
        """Put the successor in the collection's place if it holds as much. Raises `CollectionNotFound`."""
        return await self._written(lambda connection: succession.succeed(connection, collection, successor))

    async def _written(self, work: _Work[T]) -> T:
        return await self._translated(self._database.durable(work))

    async def _read(self, work: _Work[T]) -> T:
        return await self._translated(self._database.read(work))

    async def _translated(self, running: Awaitable[T]) -> T:
        """The result. The words of a driver that fails stay in the log: they may hold what was written."""
        try:
            return await running
        except (DBAPIError, PoolTimeout, sqlite3.Error, OSError) as error:
            _log.warning("the database %s failed", self._database.name, exc_info=error)
            raise _failure(error, f"the database {self._database.name}") from error


_SUMMARY = (
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
_BURY = (
    update(documents)
    .where(documents.c.collection == bindparam("of"), documents.c.id == bindparam("which"))
    .values(
        revision=bindparam("at"), chunks=0, characters=0, digest=b"", metadata="{}", spans=b"", text=None, vectors=b""
    )
)


def _failure(error: BaseException, name: str) -> StoreFull | StoreCorrupt | StoreUnavailable:
    code, state = sqlite_code(error), str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    if code.startswith("SQLITE_FULL") or state == "53100":
        return StoreFull(name)
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or state.startswith("XX"):
        return StoreCorrupt(name)
    return StoreUnavailable(name)


def _write(connection: Connection, insert: Callable[..., Any], there: Collection, cut: Sequence[CutDocument]) -> Stored:
    standing = {row.id: row for row in rows_there(connection, there.number, [each.document.id for each in cut])}
    changed = [
        each
        for each in cut
        if (row := standing.get(each.document.id)) is None or not row.present or row.digest != each.digest
    ]
    if changed:
        statement = insert(documents)
        newer = {column.name: statement.excluded[column.name] for column in documents.c if not column.primary_key}
        statement = statement.on_conflict_do_update(index_elements=["collection", "id"], set_=newer)
        rows = [_row(each, there.number, there.revision + place) for place, each in enumerate(changed, 1)]
        connection.execute(statement, rows)
    before = [row for each in changed if (row := standing.get(each.document.id)) is not None and row.present]
    chunks = sum(len(each.spans) for each in changed)
    dimension = _dimension(there, changed)
    advance(
        connection,
        there,
        len(changed),
        len(changed) - len(before),
        chunks - sum(row.chunks for row in before),
        dimension,
    )
    return Stored(len(changed), len(cut) - len(changed), chunks, collection_named(connection, there.name))


def _dimension(there: Collection, changed: Sequence[CutDocument]) -> int:
    """That of all vectors, old and new. Another writer may have been the first meanwhile. Raises `InvalidDocument`."""
    for each in changed:
        if there.dimension not in (0, each.vectors.shape[1]):
            rule = f"must have vectors of dimension {there.dimension}, not {each.vectors.shape[1]}"
            raise InvalidDocument(each.document.id, "chunks", rule)
    return int(changed[0].vectors.shape[1]) if changed else there.dimension


def _row(cut: CutDocument, number: int, revision: int) -> dict[str, object]:
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
        "vectors": packed_vectors(cut.vectors),
    }


def _summary(row: Row[Any]) -> Summary:
    return Summary(row.id, _metadata(row.metadata), row.characters, row.chunks, row.revision)


def _metadata(text: str) -> Attributes:
    return tuple(json.loads(text).items())


def _spans(packed: bytes) -> list[Span]:
    return [Span(*pair) for pair in np.frombuffer(packed, "<i4").reshape(-1, 2).tolist()]


def _writing(row: Row[Any]) -> Writing:
    metadata, spans = _metadata(row.metadata), _spans(row.spans)
    vectors = None if row.text is None else np.frombuffer(row.vectors, "<f4").reshape(len(spans), -1)
    return Writing(row.id, row.revision, metadata, row.text or "", spans, vectors)


def _passages(connection: Connection, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
    """The borders of the chunks come with the texts, unless these are long: then only the parts are read."""
    rows: dict[tuple[str, int], Row[Any]] = {}
    ids = list(dict.fromkeys(ref.document_id for ref in refs))
    written = in_collection(_PASSAGES, collection)
    for start in range(0, len(ids), AT_ONCE):
        some = connection.execute(written.where(documents.c.id.in_(ids[start : start + AT_ONCE])))
        rows |= {(row.id, row.revision): row for row in some}
    found: dict[ChunkRef, Found] = {}
    for ref in refs:
        row = rows.get((ref.document_id, ref.revision))
        if row is not None:
            span = _spans(row.spans)[ref.number]
            if row.characters > WHOLE_CHARACTERS:
                part = _part(connection, collection, ref.document_id, span)
            else:
                part = (row.text or "")[slice(*span)]
            found[ref] = Found(span, part, _metadata(row.metadata))
    return found


def _part(connection: Connection, collection: Collection, document_id: str, span: Span) -> str:
    part = select(func.substr(documents.c.text, span.start + 1, span.end - span.start))
    return connection.execute(in_collection(part, collection).where(documents.c.id == document_id)).scalar() or ""
