"""A service whose database is not there says so in one line that names the setting, and exits with status 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import systems

NOBODY = "postgresql://me:geheim@127.0.0.1:1/hansei"
DATABASES = {
    "curator": "HANSEI_CURATOR_DATABASE_URL",
    "evidence": "HANSEI_EVIDENCE_DATABASE_URL",
    "planner": "HANSEI_PLANNER_DATABASE_URL",
    "search": "HANSEI_SEARCH_DATABASE_URL",
    "validator": "HANSEI_VALIDATOR_DATABASE_URL",
}


@pytest.mark.parametrize("name", sorted(DATABASES))
def test_an_unreachable_database_is_one_line(name: str, tmp_path: Path) -> None:
    setting = DATABASES[name]
    settings = {setting: NOBODY, "HANSEI_DATABASE_WAIT_SECONDS": "0", "SEARCH_SNAPSHOT_DIR": str(tmp_path)}
    status, written = systems.failed_start(tmp_path, f"services.{name}", **settings)
    assert status == 1
    lines = [line for line in written.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, written
    shown = "postgresql+psycopg://me:[redacted]@127.0.0.1:1/hansei"
    assert lines[0].startswith(f"{setting}: the database {shown} did not answer")
    assert "geheim" not in written
