"""The client against the bare generated stub on one server, and how soon `hansei --help` is there.

`python -m bench.sdk` writes `bench/sdk/results.json` and the tables in `bench/sdk/README.md`. Calls take turns, one by
the stub, one by the client, so that both meet the same machine; the overhead is the ratio of the medians.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc

from bench.load import wait_until_idle
from bench.report import machine
from hansei.client import AsyncClient, Client
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Delta
from hansei.search.v1 import search_pb2, search_service_pb2
from hansei.search.v1.search_service_pb2_grpc import SearchServiceStub
from tests.support import systems

HERE = Path(__file__).parent
DATASET = "bench"
BULLETS = 1_000
CALLS = 2_000
WARM_UP = 200
RUNS = 15
SECONDS = 10.0
QUERY = "retry a failed call"


def main() -> None:
    """Measure and write."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        system = stack.enter_context(systems.one_process(Path(folder), HANSEI_LOG_LEVEL="WARNING"))
        wait_until_idle(system.processes["allinone"].pid)
        client = stack.enter_context(Client(system.address))
        client.search(DATASET, QUERY, min_revision=_fill_playbook(client))
        rows = _measure_blocking(client, system.address) + asyncio.run(_measure_async(system.address))
    help_rows = [_help()]
    results = {"machine": machine(), "load": os.getloadavg()[0], "rows": rows, "help": help_rows}
    (HERE / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    _write_table("sdk", rows)
    _write_table("help", help_rows)


def _fill_playbook(client: Client) -> int:
    """Create a playbook of a thousand bullets and return its revision."""
    deltas = [
        Delta(
            type=DELTA_TYPE_ADD, section="others", content=f"Lesson {number}: retry call {number} once, then report it."
        )
        for number in range(BULLETS)
    ]
    return client.playbooks.apply_deltas(dataset=DATASET, deltas=deltas).revision


def _search_request() -> search_service_pb2.SearchRequest:
    return search_service_pb2.SearchRequest(dataset=DATASET, query=search_pb2.SearchQuery(query_text=QUERY, top_k=5))


def _status_request() -> search_service_pb2.GetIndexStatusRequest:
    return search_service_pb2.GetIndexStatusRequest(dataset=DATASET)


def _measure_blocking(client: Client, address: str) -> list[dict[str, Any]]:
    with grpc.insecure_channel(address) as channel:
        stub: Any = SearchServiceStub(channel)
        return [
            _row("GetIndexStatus", "blocking", *_time_alternately(
                lambda: stub.GetIndexStatus(_status_request(), timeout=SECONDS),
                lambda: client.index.get_status(dataset=DATASET),
            )),
            _row("Search", "blocking", *_time_alternately(
                lambda: stub.Search(_search_request(), timeout=SECONDS),
                lambda: client.search(DATASET, QUERY, top_k=5),
            )),
        ]  # fmt: skip


async def _measure_async(address: str) -> list[dict[str, Any]]:
    async with AsyncClient(address) as client, grpc.aio.insecure_channel(address) as channel:
        stub: Any = SearchServiceStub(channel)
        return [
            _row("GetIndexStatus", "async", *await _time_alternately_async(
                lambda: stub.GetIndexStatus(_status_request(), timeout=SECONDS),
                lambda: client.index.get_status(dataset=DATASET),
            )),
            _row("Search", "async", *await _time_alternately_async(
                lambda: stub.Search(_search_request(), timeout=SECONDS),
                lambda: client.search(DATASET, QUERY, top_k=5),
            )),
        ]  # fmt: skip


def _time_alternately(bare: Callable[[], object], ours: Callable[[], object]) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + CALLS):
        for call, taken in zip((bare, ours), times, strict=True):
            began = time.perf_counter()
            call()
            if number >= WARM_UP:
                taken.append(time.perf_counter() - began)
    return times


async def _time_alternately_async(
    bare: Callable[[], Awaitable[object]], ours: Callable[[], Awaitable[object]]
) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + CALLS):
        for call, taken in zip((bare, ours), times, strict=True):
            began = time.perf_counter()
            await call()
            if number >= WARM_UP:
                taken.append(time.perf_counter() - began)
    return times


def _row(rpc: str, kind: str, bare: list[float], ours: list[float]) -> dict[str, Any]:
    bare_ms, ours_ms = statistics.median(bare) * 1000, statistics.median(ours) * 1000
    return {
        "rpc": rpc,
        "client": kind,
        "calls": len(ours),
        "stub_p50_ms": round(bare_ms, 4),
        "client_p50_ms": round(ours_ms, 4),
        "overhead_percent": round((ours_ms / bare_ms - 1) * 100, 1),
    }


def _help() -> dict[str, Any]:
    """Measure the duration of the process `hansei --help`, compared with an empty Python."""
    hansei = str(Path(sys.executable).with_name("hansei"))
    empty, empty_cpu = _process_ms([sys.executable, "-c", "pass"])
    ours, ours_cpu = _process_ms([hansei, "--help"])
    return {
        "command": "hansei --help",
        "runs": RUNS,
        "empty_python_p50_ms": empty,
        "p50_ms": ours,
        "empty_python_cpu_ms": empty_cpu,
        "cpu_ms": ours_cpu,
    }


def _process_ms(command: list[str]) -> tuple[float, float]:
    """Return the medians of the time from start to end, and of the processor time spent, milliseconds."""
    times, spent = [], []
    for _ in range(RUNS):
        began, before = time.perf_counter(), _children_seconds()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
        spent.append(_children_seconds() - before)
    return round(statistics.median(times) * 1000, 1), round(statistics.median(spent) * 1000, 1)


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _write_table(name: str, rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([str(row[column]) for column in columns] for row in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    readme = HERE / "README.md"
    text = re.sub(
        rf"(<!-- {name} -->\n).*?(<!-- end -->)",
        lambda found: found[1] + table + found[2],
        readme.read_text(),
        flags=re.S,
    )
    readme.write_text(text)
    print(table)


if __name__ == "__main__":
    main()
