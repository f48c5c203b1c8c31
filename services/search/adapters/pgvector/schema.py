"""The tables of the backend PGVECTOR.

`search_chunk_index` holds the state of each collection's index: its revision, the dimension of its vectors, and the
totals that BM25 needs. `search_chunk_term` counts the chunks that contain a term. `search_chunk` is partitioned by
collection, because an HNSW index has one dimension, and because a partition is dropped at once. `terms` are the hashes
of a chunk's distinct terms, `frequencies` their occurrences, and `words` their saturated frequencies.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table

from libs.storage.migrations import Migrations

metadata = MetaData()
MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "search_pgvector_schema_version")

WORD_DIMENSIONS = 1_000_000_000
"""The dimensions of `words`, the most that `sparsevec` has."""

chunk_index = Table(
    "search_chunk_index",
    metadata,
    Column("collection", String(32), primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("terms", BigInteger, nullable=False),
)

chunk_term = Table(
    "search_chunk_term",
    metadata,
    Column("collection", String(32), primary_key=True),
    Column("term", Integer, primary_key=True, autoincrement=False),
    Column("chunks", Integer, nullable=False),
)
