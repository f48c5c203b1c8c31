"""Vectors by model and content hash, in the service's database."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from libs.sql.engines import insert_of
from services.search.adapters.database import Database
from services.search.adapters.schema import embeddings
from services.search.domain.embedding import Float32s

log = logging.getLogger(__name__)

# SQLite's limit of variables in a statement, with room to spare.
_AT_ONCE = 500


class StoredEmbeddings:
    """The cache of embeddings. A database that fails costs time, never an answer: it is logged and passed over."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = insert_of(database.url.get_backend_name())(embeddings).on_conflict_do_nothing()

    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Float32s]:
        """The vectors that are known."""

        def read(connection: Connection) -> dict[bytes, Float32s]:
            found: dict[bytes, Float32s] = {}
            for start in range(0, len(hashes), _AT_ONCE):
                some = hashes[start : start + _AT_ONCE]
                columns = select(embeddings.c.content_hash, embeddings.c.vector)
                rows = connection.execute(
                    columns.where(embeddings.c.model == model, embeddings.c.content_hash.in_(some))
                )
                found.update((bytes(digest), np.frombuffer(vector, "<f4")) for digest, vector in rows)
            return found

        if not hashes:
            return {}
        try:
            return await self._database.transaction(read)
        except SQLAlchemyError:
            log.exception("embeddings could not be read from the database")
            return {}

    async def put(self, model: str, vectors: Mapping[bytes, Float32s]) -> None:
        """Remember vectors; known ones are kept as they are."""
        rows = [
            {"model": model, "content_hash": digest, "vector": vector.astype("<f4").tobytes()}
            for digest, vector in vectors.items()
        ]
        try:
            if rows:
                await self._database.transaction(lambda connection: connection.execute(self._insert, rows))
        except SQLAlchemyError:
            log.exception("embeddings could not be written to the database")
