"""The durable part of the cache: vectors by model id and content hash, in a table of the owner's database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
from sqlalchemy import Column, Connection, LargeBinary, MetaData, String, Table, select
from sqlalchemy.exc import SQLAlchemyError

from chassis.errors import HanseiError
from chassis.logging import get_logger
from libs.embedding.model import Float32s
from libs.storage.engines import get_insert

log = get_logger(__name__)

# SQLite's limit of variables in a statement, with a margin.
_HASHES_PER_STATEMENT = 500


class EmbeddingStore(Protocol):
    """Stores vectors by model id and content hash (S-17)."""

    async def get(self, model_id: str, hashes: Sequence[bytes]) -> Mapping[bytes, Float32s]:
        """Return the stored vectors among `hashes`."""

    async def put(self, model_id: str, vectors: Mapping[bytes, Float32s]) -> None:
        """Store vectors; those that are stored already stay as they are."""


def define_embedding_table(metadata: MetaData) -> Table:
    """Define the table `embeddings`: little-endian float32 by model id and content hash."""
    return Table(
        "embeddings",
        metadata,
        Column("model", String(256), primary_key=True),
        Column("content_hash", LargeBinary(32), primary_key=True),
        Column("vector", LargeBinary, nullable=False),
    )


def select_embeddings(
    connection: Connection, table: Table, model_id: str, hashes: Sequence[bytes]
) -> dict[bytes, Float32s]:
    """Return the stored vectors among `hashes`."""
    vectors: dict[bytes, Float32s] = {}
    for start in range(0, len(hashes), _HASHES_PER_STATEMENT):
        some = hashes[start : start + _HASHES_PER_STATEMENT]
        query = select(table.c.content_hash, table.c.vector)
        rows = connection.execute(query.where(table.c.model == model_id, table.c.content_hash.in_(some)))
        vectors.update((bytes(digest), np.frombuffer(vector, "<f4")) for digest, vector in rows)
    return vectors


def insert_embeddings(connection: Connection, table: Table, model_id: str, vectors: Mapping[bytes, Float32s]) -> None:
    """Insert vectors; rows that exist stay as they are."""
    if not vectors:
        return
    rows = [
        {"model": model_id, "content_hash": digest, "vector": vector.astype("<f4").tobytes()}
        for digest, vector in vectors.items()
    ]
    connection.execute(_build_insert(connection.dialect.name, table), rows)


@cache
def _build_insert(dialect: str, table: Table) -> Any:
    return get_insert(dialect)(table).on_conflict_do_nothing()


Run = Callable[[Callable[[Connection], Any]], Awaitable[Any]]
"""Runs a function in a transaction of the owner's database."""


class TableStore:
    """An `EmbeddingStore` on a table. A database that fails costs time, never a response: the failure is logged."""

    def __init__(self, table: Table, read: Run, write: Run) -> None:
        self._table = table
        self._read = read
        self._write = write

    async def get(self, model_id: str, hashes: Sequence[bytes]) -> Mapping[bytes, Float32s]:
        """Return the stored vectors among `hashes`; none when the database fails."""
        if not hashes:
            return {}
        try:
            found: Mapping[bytes, Float32s] = await self._read(
                lambda connection: select_embeddings(connection, self._table, model_id, hashes)
            )
        except (SQLAlchemyError, HanseiError):
            log.exception("reading embeddings failed; embedding the texts again", texts=len(hashes))
            return {}
        return found

    async def put(self, model_id: str, vectors: Mapping[bytes, Float32s]) -> None:
        """Store vectors; those that are stored already stay as they are."""
        if not vectors:
            return
        try:
            await self._write(lambda connection: insert_embeddings(connection, self._table, model_id, vectors))
        except (SQLAlchemyError, HanseiError):
            log.exception("storing embeddings failed", embeddings=len(vectors))
