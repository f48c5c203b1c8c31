"""The processor time and the memory of the processes of a system, of its PostgreSQL, and bytes on disk."""

from __future__ import annotations

from pathlib import Path

import psycopg

from bench.load import cpu_seconds
from tests.support.postgres_server import PostgresServer
from tests.support.systems import System

POSTGRES = "postgres"


class ProcessMeter:
    """Reads processor times by the name of a service; all processes of PostgreSQL count as one."""

    def __init__(self, system: System, server: PostgresServer) -> None:
        self._pids = {name: process.pid for name, process in system.processes.items()}
        self._postmaster = int((server.folder / "data/postmaster.pid").read_text().split()[0])
        self._backends: dict[int, float] = {}
        self._where = f"host={server.folder} port={server.port} user=hansei dbname=postgres"

    def read_cpu(self) -> dict[str, float]:
        """Return the seconds of processor time that each process has used."""
        found = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children").read_text().split()
        for pid in (self._postmaster, *map(int, children)):
            try:
                self._backends[pid] = cpu_seconds(pid)
            except OSError:
                continue  # ended just now; its last value counts
        return found | {POSTGRES: sum(self._backends.values())}

    def read_loops(self) -> dict[str, float]:
        """Return the seconds of processor time that the first thread of each service has used, its event loop."""
        files = {name: Path(f"/proc/{pid}/task/{pid}/schedstat") for name, pid in self._pids.items()}
        return {name: int(file.read_text().split()[0]) / 1e9 for name, file in files.items()}

    def read_memory(self) -> dict[str, int]:
        """Return the resident bytes of each service."""
        return {name: read_resident_bytes(pid) for name, pid in self._pids.items()}

    def read_disk(self) -> tuple[int, int]:
        """Return the bytes of all databases after a checkpoint, and the bytes that the log has ever had."""
        with psycopg.connect(self._where, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            row = connection.execute(
                "SELECT (SELECT sum(pg_database_size(oid)) FROM pg_database)::bigint,"
                " (pg_current_wal_lsn() - '0/0')::bigint"
            ).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])


def read_resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
