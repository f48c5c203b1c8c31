"""Schemas that grow: each service keeps its Alembic migrations in a folder beside its tables."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text


def upgrade(engine: Engine, folder: Path, lock: int) -> None:
    """Bring a database to the newest schema of `folder`, in one transaction.

    Replicas that start together on one server take turns by the advisory lock `lock`, any constant of the service.
    """
    config = Config()
    config.set_main_option("script_location", str(folder))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
