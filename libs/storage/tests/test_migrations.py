"""A database of a newer version is left as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from libs.storage.engines import create_database_engine, parse_location
from libs.storage.migrations import Migrations, SchemaNewer, upgrade

MIGRATION = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "{revision}", {before}
def upgrade():
    op.create_table("t{revision}", sa.Column("a", sa.Integer))
"""


def migrations(folder: Path, count: int) -> Migrations:
    (folder / "versions").mkdir(parents=True)
    for number in range(1, count + 1):
        before = repr(f"{number - 1:04}") if number > 1 else None
        written = MIGRATION.format(revision=f"{number:04}", before=before)
        (folder / "versions" / f"{number:04}.py").write_text(written)
    return Migrations(folder, "alembic_version")


def test_an_older_version_refuses_the_database_of_a_newer_one(tmp_path: Path) -> None:
    old, new = migrations(tmp_path / "old", 1), migrations(tmp_path / "new", 2)
    engine = create_database_engine(parse_location(str(tmp_path / "t.db")), "test", writes=True)
    upgrade(engine, old)
    upgrade(engine, new)
    with pytest.raises(SchemaNewer, match=r"t\.db is newer than this version of hansei \(0002\): start the newer"):
        upgrade(engine, old)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == ["0002"]
    engine.dispose()


def test_a_database_of_the_newest_schema_is_opened_without_alembic(tmp_path: Path) -> None:
    location, known_migrations = tmp_path / "t.db", migrations(tmp_path / "known", 2)
    engine = create_database_engine(parse_location(str(location)), "test", writes=True)
    upgrade(engine, known_migrations)
    engine.dispose()
    script = f"""
import sys
from pathlib import Path
from libs.storage.engines import create_database_engine, parse_location
from libs.storage.migrations import Migrations, upgrade
engine = create_database_engine(parse_location({str(location)!r}), "test", writes=True)
upgrade(engine, Migrations(Path({str(known_migrations.folder)!r}), "alembic_version"))
print("alembic" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
