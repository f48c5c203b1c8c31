"""Bulk learning of 10,000 short trajectories, offline, on both engines: the rate, and whether it stays.

`python -m bench.bulk` writes `bench/results/bulk.json` and the table in `bench/README.md`. Every service runs in one
process; on PostgreSQL the curator's playbooks and the gateway's jobs are on one server. The job has one dataset, and
200 lessons that its trajectories teach again and again. The result is the ratio of the last tenth to the first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.load import cpu_seconds
from bench.report import machine, write
from hansei.gateway.v1 import bulk_pb2 as bulk
from tests.support import systems
from tests.support.bulk_jobs import Jobs, build_trajectory, jobs_at
from tests.support.postgres_server import find_postgres_programs, postgres_server

PARTS = 10
LESSONS = 200
TIMEOUT_SECONDS = 3600
IDLE_SECONDS = 15.0


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=int, default=10_000)
    parser.add_argument("--dry", action="store_true", help="print only")
    options = parser.parse_args()
    load = os.getloadavg()
    rows = [measure_job(engine, options.trajectories, settings) for engine, settings in engines()]
    results = {"machine": machine() | {"load_before": f"{load[0]:.1f}"}, "rows": rows}
    if options.dry:
        print(results)
    else:
        write("bulk", results)


def engines() -> Iterator[tuple[str, dict[str, str]]]:
    """Each engine with the settings that choose it; PostgreSQL only where it is installed."""
    yield "SQLite", {}
    programs = find_postgres_programs()
    if programs is None:
        print("PostgreSQL is not installed: it is not measured")
        return
    with postgres_server(programs) as server:
        yield "PostgreSQL", {"HANSEI_GATEWAY_DATABASE_URL": server.url, "HANSEI_CURATOR_DATABASE_URL": server.url}


def measure_job(engine: str, count: int, settings: dict[str, str]) -> dict[str, Any]:
    """Submit a job, watch it to its end, and return how long each tenth of it took."""
    with run_system(settings) as (jobs, pid):
        dataset = "bench"
        began = time.perf_counter()
        job_id = str(uuid.uuid4())
        jobs.submit(dataset, [build_trajectory(dataset, number, LESSONS) for number in range(count)], job_id)
        submitted = time.perf_counter() - began
        seen = JobProgress(0, time.perf_counter(), cpu_seconds(pid))
        marks = [seen]
        for job in jobs.watch(job_id, TIMEOUT_SECONDS):
            now = JobProgress(job.learned, time.perf_counter(), cpu_seconds(pid))
            while len(marks) <= PARTS and now.learned >= len(marks) * count // PARTS:
                marks.append(interpolate(seen, now, len(marks) * count // PARTS))
            seen = now
        assert (job.state, job.learned) == (bulk.JOB_STATE_COMPLETED, count), job
        idle = idle_cpu(pid)
    seconds = [after.seconds - before.seconds for before, after in pairwise(marks)]
    # Polling costs time per second, not per trajectory: on a busy machine it would hide the cost of trajectories.
    cpu = [after.cpu - before.cpu - idle * (after.seconds - before.seconds) for before, after in pairwise(marks)]
    return {
        "engine": engine,
        "trajectories": count,
        "submit_s": round(submitted, 2),
        "per_second": round(count / sum(seconds), 1),
        "cpu_ms_each": round(sum(cpu) / count * 1000, 2),
        "idle_cpu": round(idle, 3),
        "first_tenth_s": round(seconds[0], 2),
        "last_tenth_s": round(seconds[-1], 2),
        "last_to_first": round(seconds[-1] / seconds[0], 3),
        "cpu_last_to_first": round(cpu[-1] / cpu[0], 3),
        "tenths_s": " ".join(f"{tenth:.1f}" for tenth in seconds),
        "tenths_cpu_s": " ".join(f"{tenth:.1f}" for tenth in cpu),
    }


@dataclass(frozen=True, slots=True)
class JobProgress:
    """One look at a job: how much was learned by when, and the CPU seconds of the process by then."""

    learned: int
    seconds: float
    cpu: float


def idle_cpu(pid: int) -> float:
    """Return the CPU seconds per second of a process that has nothing to learn any more."""
    used, began = cpu_seconds(pid), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds(pid) - used) / (time.perf_counter() - began)


def interpolate(before: JobProgress, after: JobProgress, learned: int) -> JobProgress:
    """Return the interpolated state at the time when `learned` trajectories were learned."""
    share = (learned - before.learned) / max(1, after.learned - before.learned)
    seconds = before.seconds + share * (after.seconds - before.seconds)
    return JobProgress(learned, seconds, before.cpu + share * (after.cpu - before.cpu))


@contextmanager
def run_system(settings: dict[str, str]) -> Iterator[tuple[Jobs, int]]:
    """Run a new system in one process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        systems.one_process(Path(folder), HANSEI_LOG_LEVEL="ERROR", **settings) as system,
        jobs_at(system.address) as jobs,
    ):
        yield jobs, system.processes["allinone"].pid


if __name__ == "__main__":
    main()
