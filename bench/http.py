"""Compare HTTP Search with gRPC Search: the same queries, at the same gateway, in one run.

`python -m bench.http` writes `bench/results/http.json` and the table in `bench/README.md`. Both forms of hansei are
measured: every service in one process, and one process each. The callers of HTTP keep their connections and do
nothing but write requests and read answers, so that it is the server that is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.load import Measurement, measure, wait_until_idle
from bench.loop import build_queries, fill_playbook, nth
from bench.report import machine, write
from hansei.search.v1 import search_service_pb2, search_service_pb2_grpc
from tests.support import systems

SIZE = 1_000
CALLERS = (1, 8, 32)
CALLS = {1: 300, 8: 800, 32: 800}
PAIRS = 3
"""Measurements of both, in turn; the best of each counts, because others use this machine too."""


def main() -> None:
    """Measure and write."""
    rows = []
    for form in ("one process", "separate processes"):
        for callers, grpc_search, http_search in uvloop.run(_measure(form)):
            ratio = round(http_search.per_second / grpc_search.per_second, 3)
            rows.append({"form": form, "callers": callers, **_pair(grpc_search, http_search), "http_to_grpc": ratio})
    write("http", {"machine": machine() | {"load": f"{os.getloadavg()[0]:.1f}"}, "rows": rows})


def _pair(grpc_search: Measurement, http_search: Measurement) -> dict[str, float]:
    return {
        "grpc_per_second": round(grpc_search.per_second, 1),
        "http_per_second": round(http_search.per_second, 1),
        "grpc_p50_ms": round(grpc_search.p50_ms, 2),
        "http_p50_ms": round(http_search.p50_ms, 2),
        "grpc_cpu_ms": round(grpc_search.cpu_ms, 3),
        "http_cpu_ms": round(http_search.cpu_ms, 3),
    }


async def _measure(form: str) -> list[tuple[int, Measurement, Measurement]]:
    address = f"127.0.0.1:{systems.free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HANSEI_HTTP_ADDRESS": address, "HANSEI_LOG_LEVEL": "WARNING"}
        with systems.FORMS[form](Path(folder), **environment) as system:
            for process in system.processes.values():
                wait_until_idle(process.pid)
            async with grpc.aio.insecure_channel(system.address) as channel:
                return await _measure_both(system, channel, address)


async def _measure_both(
    system: systems.System, channel: grpc.aio.Channel, address: str
) -> list[tuple[int, Measurement, Measurement]]:
    revision = await fill_playbook(channel, "bench-http", SIZE)
    queries = build_queries("bench-http", revision)
    stub: Any = search_service_pb2_grpc.SearchServiceStub(channel)
    pid = next(iter(system.processes.values())).pid if len(system.processes) == 1 else system.processes["gateway"].pid
    found = []
    for callers in CALLERS:
        http = await HttpCallers.open(address, callers, queries)
        load: Any = partial(measure, pid=pid, callers=callers, calls=CALLS[callers])
        grpc_runs, http_runs = [], []
        for _ in range(PAIRS):
            grpc_runs.append(await load("grpc", partial(nth, stub.Search, queries)))
            http_runs.append(await load("http", http.search))
        http.close()
        best = [max(runs, key=lambda run: run.per_second) for runs in (grpc_runs, http_runs)]
        found.append((callers, best[0], best[1]))
    return found


class HttpCallers:
    """Connections that are kept, and the requests that go over them."""

    def __init__(self, connections: list[Any], requests: list[bytes]) -> None:
        self._connections = connections
        self._idle: asyncio.Queue[Any] = asyncio.Queue()
        for connection in connections:
            self._idle.put_nowait(connection)
        self._requests = requests

    @classmethod
    async def open(cls, address: str, callers: int, queries: list[search_service_pb2.SearchRequest]) -> HttpCallers:
        """Open one connection for each caller."""
        host, _, port = address.rpartition(":")
        connections = [await asyncio.open_connection(host, int(port)) for _ in range(callers)]
        return cls(connections, [_request(query) for query in queries])

    async def search(self, number: int) -> None:
        """Send a request and read its whole answer."""
        connection = await self._idle.get()
        reader, writer = connection
        writer.write(self._requests[number % len(self._requests)])
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(length)
        assert b'"results"' in answer
        self._idle.put_nowait(connection)

    def close(self) -> None:
        """Close all."""
        for _, writer in self._connections:
            writer.close()


def _request(query: search_service_pb2.SearchRequest) -> bytes:
    text_query = {"query_text": query.query.query_text}
    body = json.dumps({"dataset": query.dataset, "query": text_query, "min_revision": str(query.min_revision)}).encode()
    head = f"POST /v1/search HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


if __name__ == "__main__":
    main()
