"""Alembic's entry point: migrations run on the connection that `migrated` hands over."""

from __future__ import annotations

from alembic import context

from services.curator.adapters.sql import schema

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=schema.metadata,
    transactional_ddl=True,
    version_table=schema.VERSION_TABLE,
)
context.run_migrations()
