"""The tables of the search service, the same for SQLite and PostgreSQL.

`embeddings` caches what was embedded. `document` holds the newest revision of every document: `spans` are the borders
of its chunks, little-endian int32, `vectors` their vectors, little-endian float32, one row a span. A deleted document
keeps its row, without text, so that every index hears of it. Times are microseconds since 1970 UTC.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()
VERSION_TABLE = "alembic_version"

# Ids and names are sorted by code points in both databases, so that a page ends at the same place in both.
_SORTED = Text().with_variant(Text(collation="C"), "postgresql")

embeddings = Table(
    "embeddings",
    metadata,
    Column("model", String(256), primary_key=True),
    Column("content_hash", LargeBinary(32), primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)

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
    Column("created", BigInteger, nullable=False),
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
