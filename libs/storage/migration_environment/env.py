"""Run the migrations of one service on the connection that `libs.storage.migrations.upgrade` passes."""

from __future__ import annotations

from alembic import context

_attributes = context.config.attributes
context.configure(
    connection=_attributes["connection"],
    version_table=_attributes["version_table"],
    transactional_ddl=True,
)
context.run_migrations()
