"""The extension, and the chunks of collections with their statistics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import DBAPIError

from services.search.domain.collection_errors import ExtensionMissing

revision = "0001"
down_revision = None

OLDEST = (0, 8)


def upgrade() -> None:
    """Create the extension if it is missing, and the tables."""
    _require_extension(op.get_bind())
    op.create_table(
        "search_chunk_index",
        sa.Column("collection", sa.String(32), primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.Column("chunks", sa.BigInteger, nullable=False),
        sa.Column("terms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "search_chunk_term",
        sa.Column("collection", sa.String(32), primary_key=True),
        sa.Column("term", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        postgresql_with={"fillfactor": 70},  # its rows are updated in place
    )
    op.execute("""
        CREATE TABLE search_chunk (
            collection varchar(32) NOT NULL,
            document text COLLATE "C" NOT NULL,
            revision bigint NOT NULL,
            number integer NOT NULL,
            length integer NOT NULL,
            facets text[] NOT NULL,
            terms integer[] NOT NULL,
            frequencies integer[] NOT NULL,
            words sparsevec NOT NULL,
            embedding vector NOT NULL,
            PRIMARY KEY (collection, revision, number)
        ) PARTITION BY LIST (collection)
    """)
    op.create_index("search_chunk_document", "search_chunk", ["document"])
    op.create_index("search_chunk_terms", "search_chunk", ["terms"], postgresql_using="gin")
    op.create_index("search_chunk_facets", "search_chunk", ["facets"], postgresql_using="gin")


def _require_extension(connection: sa.Connection) -> None:
    """Create the extension `vector` if the server has it. Raises `ExtensionMissing`."""
    find_version = sa.text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    version = connection.scalar(find_version)
    if version is None:
        try:
            with connection.begin_nested():
                connection.execute(sa.text("CREATE EXTENSION vector"))
        except DBAPIError as error:
            raise ExtensionMissing('lacks the extension "vector"') from error
        version = connection.scalar(find_version)
    if tuple(int(part) for part in str(version).split(".")[:2]) < OLDEST:
        raise ExtensionMissing(f'has the extension "vector" {version}, which is too old')
