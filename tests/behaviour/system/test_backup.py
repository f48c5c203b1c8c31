"""The commands of docs/operations/backup.md, run against a hansei that learns, and on the restored data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hansei.client import Client
from tests.support import systems
from tests.support.bulk_jobs import build_trajectory, jobs_at
from tests.support.postgres_server import (
    PostgresServer,
    find_postgres_programs_or_skip,
    pgvector_server,
    postgres_server,
)

PAGE = (systems.ROOT / "docs/operations/backup.md").read_text(encoding="utf-8")
DATABASES = "deploy/kubernetes/components/postgres/databases.sql"
SEARCH = systems.SERVICES["search"]["database"]
BEFORE, MEANWHILE = 6, 6


def commands(heading: str) -> tuple[str, str]:
    """Return the backup commands and the restore commands of a section."""
    (section,) = (section for section in PAGE.split("\n## ") if section.startswith(heading))
    backup, restore = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return backup, restore


def shell(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, **environment, "PATH": path}
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def learn(client: Client, dataset: str, number: int) -> str:
    client.gateway.learn(request_id=str(uuid.uuid4()), dataset=dataset, trajectory=build_trajectory(dataset, number))
    return build_trajectory(dataset, number).id


def backed_up(system: systems.System, dataset: str, backup: Callable[[], None]) -> list[str]:
    """Back up while trajectories are learned; return those that were acknowledged before."""
    with Client(system.address) as client:
        before = [learn(client, dataset, number) for number in range(BEFORE)]
        with ThreadPoolExecutor(1) as threads:
            made = threads.submit(backup)
            for number in range(BEFORE, BEFORE + MEANWHILE):
                learn(client, dataset, number)
            made.result()
    return before


def check(system: systems.System, dataset: str, before: list[str]) -> None:
    """Each trajectory learned before the backup is there once; search finds it, and learning continues."""
    with Client(system.address) as client, jobs_at(system.address) as jobs:
        sources = jobs.sources(dataset)
        assert set(before) <= set(sources)
        assert len(sources) == len(set(sources))
        head = len(sources)  # each trajectory is a revision
        assert client.search(dataset, "tool1 fails: no such thing", min_revision=head).results
        assert learn(client, dataset, 99) in jobs.sources(dataset)


def test_files_are_copied_while_hansei_learns_and_restored(tmp_path: Path) -> None:
    backup, restore = commands("SQLite")
    dataset = f"backup-{uuid.uuid4().hex[:8]}"
    directory = {"HANSEI_DATA_DIR": str(tmp_path / "state")}  # not below the working folder's `data`, as of `hansei up`
    files = {**directory, "PLAYBOOK_DATA_DIR": ""}
    with systems.one_process(tmp_path, **files) as system:
        before = backed_up(system, dataset, lambda: shell(backup, tmp_path, directory))
    shell(restore, tmp_path, directory)
    with systems.one_process(tmp_path, **files) as system:
        check(system, dataset, before)


def test_a_backup_of_a_directory_without_databases_fails(tmp_path: Path) -> None:
    backup, _ = commands("SQLite")
    with pytest.raises(AssertionError, match="contains no database"):
        shell(backup, tmp_path, {"HANSEI_DATA_DIR": str(tmp_path)})


def test_servers_are_dumped_while_hansei_learns_and_restored_into_fresh_ones(tmp_path: Path) -> None:
    backup, restore = commands("PostgreSQL")
    dataset = f"backup-{uuid.uuid4().hex[:8]}"
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    programs = find_postgres_programs_or_skip()
    with postgres_server(programs) as server:
        databases = systems.server_databases(server)
        with systems.one_process(old, **databases) as system:
            before = backed_up(system, dataset, lambda: shell(backup, tmp_path, databases))
    with postgres_server(programs) as server:
        databases = systems.server_databases(server)
        shell(restore, tmp_path, databases)
        with systems.one_process(new, **databases) as system:
            check(system, dataset, before)


def test_a_database_with_pgvector_is_restored_by_its_own_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dumps contain a comment on the extension, which only the superuser that created it may set."""
    backup, restore = commands("PostgreSQL")
    with pgvector_server(tmp_path) as server:
        monkeypatch.setenv("PATH", os.pathsep.join([str(server.programs), os.environ["PATH"]]))
        databases = create_databases(server)
        table = "CREATE TABLE chunk AS SELECT '[1,2,3]'::vector AS embedding"
        shell(f'psql -c "{table}" {databases[SEARCH]}', tmp_path, {})
        shell(backup, tmp_path, databases)
        shell(f"psql -c 'DROP TABLE chunk' {databases[SEARCH]}", tmp_path, {})
        shell(restore, tmp_path, databases)
        shell(f"psql -Atc 'SELECT embedding FROM chunk' {databases[SEARCH]} | grep -F '[1,2,3]'", tmp_path, {})


def create_databases(server: PostgresServer) -> dict[str, str]:
    """Create the databases and accounts of `databases.sql`; return the URLs, each with the account of its service."""
    names = {name: listed["database"] for name, listed in systems.SERVICES.items() if "database" in listed}
    passwords = {f"{name.upper()}_PASSWORD": "none" for name in names}
    shell(f"psql -q -f {DATABASES} {server.url}", systems.ROOT, passwords)
    return {variable: f"postgresql://{name}@127.0.0.1:{server.port}/{name}" for name, variable in names.items()}
