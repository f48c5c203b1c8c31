"""Collections and documents in the service's database."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from libs.storage.database import Database
from libs.storage.engines import get_insert
from libs.storage.timestamps import utc_now
from services.search.adapters.sql import cut_over
from services.search.adapters.sql.queries import (
    DELETE_DOCUMENT,
    SUMMARY_COLUMNS,
    delete_collection,
    filter_collection,
    lock_collection,
    select_collection,
    select_documents,
    select_passages,
    to_collection,
    to_document_revision,
    to_summary,
    update_counts,
    write_documents,
)
from services.search.adapters.sql.schema import MIGRATIONS
from services.search.adapters.sql.schema import collection as collections
from services.search.adapters.sql.schema import document as documents
from services.search.domain.chunking import Chunking
from services.search.domain.collection import (
    Backend,
    ChunkedDocument,
    ChunkRef,
    Collection,
    DocumentRevision,
    DocumentSummary,
    Passages,
    WriteResult,
)
from services.search.domain.collection_errors import DocumentNotFound

REVISIONS_AT_ONCE = 256
"""Documents that an index applies in one step; each has at most some megabytes."""
READER_THREADS = 2


def open_collection_database(location: str) -> Database:
    """Return the database of collections. Raises the errors of `Database`."""
    return Database(location, MIGRATIONS, service="search", store="document store", reader_threads=READER_THREADS)


def open_embedding_database(location: str) -> Database:
    """Return the same database for the cache of embeddings, which need not survive a power failure."""
    return Database(location, MIGRATIONS, service="search", store="embedding cache", reader_threads=1, durable=False)


class CollectionRepository:
    """Implements `CollectionStore`; `clock` returns timezone-aware UTC times."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def create(self, name: str, backend: Backend, chunking: Chunking, model: str) -> Collection:
        """Create a collection, or return the one of that name."""
        row = {
            "key": secrets.token_hex(16),
            "name": name,
            "backend": backend.value,
            "chunk_tokens": chunking.tokens,
            "chunk_overlap": chunking.overlap,
            "model": model,
            "created_at": self._clock(),
            "dimension": 0,
            "revision": 0,
            "documents": 0,
            "chunks": 0,
        }

        def insert_or_select(connection: Connection) -> Collection:
            insert = get_insert(connection.dialect.name)(collections)
            connection.execute(insert.on_conflict_do_nothing(index_elements=["name"]), row)
            return select_collection(connection, name)

        return await self._database.write(insert_or_select, name)

    async def get(self, name: str) -> Collection:
        """Return a collection. Raises `CollectionNotFound`."""
        return await self._database.read(lambda connection: select_collection(connection, name))

    async def list_collections(self, after: str, limit: int, prefix: str = "") -> list[Collection]:
        """Return collections whose name sorts after `after` and begins with `prefix`, by name."""
        name = collections.c.name  # sorted by code points: no character of a name comes after `~`
        query = select(collections).where(name > after, name >= prefix, name < f"{prefix}~")
        query = query.order_by(name).limit(limit)
        return await self._database.read(lambda connection: [to_collection(row) for row in connection.execute(query)])

    async def drop(self, name: str) -> Collection:
        """Delete a collection and all its documents; return it. Raises `CollectionNotFound`."""

        def delete(connection: Connection) -> Collection:
            dropped = select_collection(connection, name, lock=True)
            cut_over.abandon_generation(connection, dropped)
            delete_collection(connection, dropped)
            return dropped

        return await self._database.write(delete, name)

    async def read_digests(self, collection: Collection, ids: Sequence[str]) -> dict[str, bytes]:
        """Return the digests of those of these documents that exist."""

        def select_digests(connection: Connection) -> dict[str, bytes]:
            return {row.id: row.digest for row in select_documents(connection, collection.number, ids) if row.present}

        return await self._database.read(select_digests)

    async def write_documents(self, collection: Collection, documents: Sequence[ChunkedDocument]) -> WriteResult:
        """Add or replace all of these documents or none. Raises `CollectionNotFound`."""

        def write_to_collection(connection: Connection) -> WriteResult:
            return write_documents(connection, lock_collection(connection, collection), documents)

        return await self._database.write(write_to_collection, collection.name)

    async def delete_documents(self, name: str, ids: Sequence[str]) -> tuple[int, Collection]:
        """Replace documents by tombstones; return their number and the collection. Raises `CollectionNotFound`."""

        def delete_from_collection(connection: Connection) -> tuple[int, Collection]:
            locked = select_collection(connection, name, lock=True)
            deleted = [row for row in select_documents(connection, locked.number, sorted(set(ids))) if row.present]
            rows = [
                {"in_collection": locked.number, "with_id": row.id, "new_revision": revision}
                for revision, row in enumerate(deleted, locked.revision + 1)
            ]
            if rows:
                connection.execute(DELETE_DOCUMENT, rows)
            chunks = sum(row.chunks for row in deleted)
            update_counts(connection, locked, len(deleted), -len(deleted), -chunks, locked.dimension)
            return len(deleted), select_collection(connection, name)

        return await self._database.write(delete_from_collection, name)

    async def read_document(self, name: str, document_id: str) -> tuple[DocumentSummary, str]:
        """Return a document and its text. Raises `CollectionNotFound`, `DocumentNotFound`."""

        def select_document(connection: Connection) -> tuple[DocumentSummary, str]:
            collection = select_collection(connection, name)
            query = filter_collection(select(*SUMMARY_COLUMNS, documents.c.text), collection)
            row = connection.execute(query.where(documents.c.id == document_id)).first()
            if row is None or row.text is None:
                raise DocumentNotFound(name, document_id)
            return to_summary(row), row.text

        return await self._database.read(select_document)

    async def list_documents(self, name: str, after: str, limit: int) -> list[DocumentSummary]:
        """Return documents whose id sorts after `after`, by id. Raises `CollectionNotFound`."""

        def select_summaries(connection: Connection) -> list[DocumentSummary]:
            query = filter_collection(select(*SUMMARY_COLUMNS), select_collection(connection, name))
            query = query.where(documents.c.id > after, documents.c.text.is_not(None))
            return [to_summary(row) for row in connection.execute(query.order_by(documents.c.id).limit(limit))]

        return await self._database.read(select_summaries)

    async def read_revisions(self, collection: Collection, after: int) -> list[DocumentRevision]:
        """Return some of the documents written or deleted after revision `after`, oldest first."""
        query = filter_collection(select(documents), collection).where(documents.c.revision > after)
        query = query.order_by(documents.c.revision).limit(REVISIONS_AT_ONCE)
        return await self._database.read(
            lambda connection: [to_document_revision(row) for row in connection.execute(query)]
        )

    async def read_passages(self, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
        """Return the texts of chunks whose documents have not changed since."""

        def select_in_collection(connection: Connection) -> Passages:
            return select_passages(connection, collection, refs)

        return await self._database.read(select_in_collection) if refs else {}

    async def begin_generation(self, collection: Collection, model: str) -> Collection:
        """Return the next generation, embedded by `model`: a new one, or the one in progress."""
        return await self._database.write(
            lambda connection: cut_over.begin_generation(connection, collection, model), collection.name
        )

    async def copy_documents(
        self, collection: Collection, generation: Collection, document_revisions: Sequence[DocumentRevision]
    ) -> Collection:
        """Copy revisions of the collection, with new vectors, to its next generation. Raises `CollectionNotFound`."""
        return await self._database.write(
            lambda connection: cut_over.copy_documents(connection, collection, generation, document_revisions),
            collection.name,
        )

    async def cut_over(self, collection: Collection, generation: Collection) -> bool:
        """Replace the collection by its next generation if that is complete. Raises `CollectionNotFound`."""
        return await self._database.write(
            lambda connection: cut_over.cut_over(connection, collection, generation), collection.name
        )
