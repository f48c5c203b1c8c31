"""Brings a database to the present schema; the files in `migrations/versions` say how."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

# Any constant will do: replicas that start together take turns.
_MIGRATION_LOCK = 0x68616E736569


def migrate(engine: Engine) -> None:
    """Upgrades to the newest schema in one transaction; safe when several processes start at once."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
