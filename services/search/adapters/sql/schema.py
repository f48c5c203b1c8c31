"""The tables of the search service, the same for SQLite and PostgreSQL.

`embeddings` caches vectors. `document` holds the newest revision of every document: `spans` are the spans of its
chunks, little-endian int32; `vectors` are their vectors, little-endian float32, one row a span. A deleted document
keeps its row, without text, as a tombstone for the indexes.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

from libs.embedding.store import define_embedding_table
from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

metadata = MetaData()
MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "search_schema_version")

# Ids and names are sorted by code points in both databases, so that a page ends at the same place in both.
_SORTED = Text().with_variant(Text(collation="C"), "postgresql")

embeddings = define_embedding_table(metadata)

collection = Table(
    "collection",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    Column("name", _SORTED, nullable=False, unique=True),
    Column("backend", String(16), nullable=False),
    Column("chunk_tokens", Integer, nullable=False),
    Column("chunk_overlap", Integer, nullable=False),
    Column("model", String(256), nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("documents", BigInteger, nullable=False),
    Column("chunks", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

document = Table(
    "document",
    metadata,
    Column("collection", Integer, primary_key=True, autoincrement=False),
    Column("id", _SORTED, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("characters", Integer, nullable=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("metadata", Text, nullable=False),
    Column("spans", LargeBinary, nullable=False),
    Column("text", Text),
    Column("vectors", LargeBinary, nullable=False),
    Index("document_revision", "collection", "revision", unique=True),
)
