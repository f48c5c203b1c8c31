"""The Search RPC against its floor: the echo RPC of the same chassis plus a bare FAISS scan of the same vectors.

`python -m bench.search.rpc`. Two search services, one exact and one that preselects, and the echo run in processes of
their own; they take up snapshots made here, and follow no playbook. The vectors of queries are cached. Short rounds
go back and forth between echo and search. CPU is that of the serving process, so other work of the machine changes it
little. `floor_per_second` is what one processor would do; callers that wait for each other and threads that work
side by side make of it less and more. So `rate_to_floor` compares calls a second with those of the echo in the same
round, less what the scan would take of them.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import faiss  # noqa: E402
import grpc  # noqa: E402
import numpy as np  # noqa: E402
import uvloop  # noqa: E402
from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402

from bench.load import Measurement, measure, wait_until_idle  # noqa: E402
from bench.search import results  # noqa: E402
from bench.search.corpus import DIMENSION, Corpus, create_corpus  # noqa: E402
from bench.search.server import run_server, write_snapshot  # noqa: E402
from chassis.tests import probe  # noqa: E402
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc  # noqa: E402
from libs.embedding.minilm import MiniLM  # noqa: E402

SIZES, CALLERS = (1_000, 10_000), (1, 8, 32)
ROUNDS, CALLS, QUERIES = 15, 640, 100
MODES = {"exact": "100000", "preselecting": "0"}
"""`HANSEI_SEARCH_EXACT_LIMIT` of each service."""

Call = Callable[[int], Awaitable[Any]]


def main() -> None:
    """Measure and write."""
    rows, health = uvloop.run(_measure_all())
    results.write("rpc", rows)
    results.write("health", health)


async def _measure_all() -> tuple[results.Rows, results.Rows]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        corpora = {size: create_corpus(size, QUERIES) for size in SIZES}
        for size, corpus in corpora.items():
            write_snapshot(Path(folder), f"d{size}", corpus)
        echo_address, echo_process = stack.enter_context(run_server("chassis.tests.probe", Path(folder), "echo", {}))
        rows: results.Rows = []
        health: results.Rows = []
        exact: dict[int, list[list[str]]] = {}
        async with grpc.aio.insecure_channel(echo_address) as echo_channel:
            for mode, limit in MODES.items():
                settings = {"HANSEI_SEARCH_EXACT_LIMIT": limit, "HANSEI_SEARCH_COMPILE_AFTER_SECONDS": "0"}
                address, process = stack.enter_context(run_server("services.search", Path(folder), mode, settings))
                wait_until_idle(process.pid)
                async with grpc.aio.insecure_channel(address) as channel:
                    for size, corpus in corpora.items():
                        near = await _create_search(channel, f"d{size}", corpus, vectors=True)
                        found = [[result.bullet.id for result in (await near(n)).results] for n in range(QUERIES)]
                        search = await _create_search(channel, f"d{size}", corpus, vectors=False)
                        agreement = _compute_agreement(exact.setdefault(size, found), found)
                        echo = _create_echo(echo_channel, (await search(0)).ByteSize())
                        kernel = _kernel_seconds(corpus) if mode == "exact" else None
                        for callers in CALLERS:
                            row = await _compare(search, process.pid, echo, echo_process.pid, callers, kernel)
                            rows.append({"documents": size, "ranking": mode, **row, "agreement": agreement})
                            print(rows[-1], flush=True)
                    health.append({"ranking": mode, **await _beside_huge_queries(channel, search)})
        return rows, health


async def _compare(
    search: Call, pid: int, echo: Call, echo_pid: int, callers: int, kernel: float | None
) -> dict[str, Any]:
    """Return medians over the rounds; times in microseconds. Without a `kernel` there is no floor."""
    rounds: list[tuple[Measurement, Measurement]] = []
    for _ in range(ROUNDS):
        echoed = await measure("echo", echo, pid=echo_pid, callers=callers, calls=CALLS, warm_up=5)
        rounds.append((await measure("search", search, pid=pid, callers=callers, calls=CALLS, warm_up=5), echoed))

    def median(value: Callable[[Measurement, Measurement], float]) -> float:
        return float(np.median([value(searched, echoed) for searched, echoed in rounds]))

    cpu, echo_cpu = (1000 * median(lambda s, e, at=at: (s, e)[at].cpu_ms) for at in (0, 1))  # type: ignore[misc]
    floor = None if kernel is None else echo_cpu + 1e6 * kernel
    rate = median(lambda s, e: s.per_second / e.per_second)
    return {
        "callers": callers,
        "per_second": median(lambda s, _: s.per_second),
        "floor_per_second": None if floor is None else 1e6 / floor,
        "cpu_us": cpu,
        "echo_cpu_us": echo_cpu,
        "scan_us": None if kernel is None else 1e6 * kernel,
        "cpu_to_floor": None if floor is None else floor / cpu,
        "rate_to_floor": None if floor is None else rate * floor / echo_cpu,
        "cpu_to_echo": echo_cpu / cpu,
        "rate_to_echo": rate,
        "p99_to_p50": median(lambda s, e: s.p99_ms / s.p50_ms),
        "echo_p99_to_p50": median(lambda s, e: e.p99_ms / e.p50_ms),
    }


async def _beside_huge_queries(channel: grpc.aio.Channel, search: Call) -> dict[str, Any]:
    """Return the milliseconds that Health and another query take, alone and while queries of 100,000 characters run."""
    stub: Any = search_service_pb2_grpc.SearchServiceStub(channel)
    checks: Any = health_pb2_grpc.HealthStub(channel)
    text = " ".join(f"word{number % 30_000}" for number in range(11_000))[:100_000]
    huge = search_service_pb2.SearchRequest(dataset=f"d{SIZES[-1]}", query=search_pb2.SearchQuery(query_text=text))
    row: dict[str, Any] = {}
    for beside in ("alone", "beside"):
        ended = asyncio.Event()

        async def disturb(ended: asyncio.Event = ended) -> None:
            while not ended.is_set():
                await stub.Search(huge)

        disturbing = asyncio.create_task(disturb()) if beside == "beside" else None
        for name, call in (("health", lambda _: checks.Check(health_pb2.HealthCheckRequest())), ("search", search)):
            measured = await measure(name, call, pid=os.getpid(), callers=1, calls=200, warm_up=5)
            row |= {f"{name}_p50_ms_{beside}": measured.p50_ms, f"{name}_p99_ms_{beside}": measured.p99_ms}
        if disturbing is not None:
            ended.set()
            await disturbing
    return row


async def _create_search(channel: grpc.aio.Channel, dataset: str, corpus: Corpus, vectors: bool) -> Call:
    """Return calls whose query has a vector, or whose vector the service has cached."""
    stub: Any = search_service_pb2_grpc.SearchServiceStub(channel)
    requests = [
        search_service_pb2.SearchRequest(
            dataset=dataset,
            query=search_pb2.SearchQuery(
                query_text=text,
                embedding=search_pb2.Embedding(values=vector.tobytes(), dimension=DIMENSION, model=MiniLM.model_id)
                if vectors
                else None,
            ),
        )
        for text, vector in zip(corpus.queries, corpus.query_vectors, strict=True)
    ]
    until = time.monotonic() + 120
    while True:
        try:
            await stub.Search(requests[0], wait_for_ready=True)
            break
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                raise
            await asyncio.sleep(0.2)
    for number in range(QUERIES):
        await stub.Search(requests[number])
    return lambda number: stub.Search(requests[number % QUERIES])


def _create_echo(channel: grpc.aio.Channel, size: int) -> Call:
    stub: Any = probe.rpc.ProbeServiceStub(channel)
    request = probe.pb.EchoRequest(text="x" * size)
    return lambda _: stub.Echo(request)


def _kernel_seconds(corpus: Corpus) -> float:
    """Return the CPU time of FAISS for the ten nearest of all vectors."""
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(corpus.vectors)
    times = []
    for vector in corpus.query_vectors:
        began = time.thread_time()
        index.search(vector[np.newaxis], 10)
        times.append(time.thread_time() - began)
    return float(np.median(times))


def _compute_agreement(expected: list[list[str]], found: list[list[str]]) -> float:
    return sum(len(set(a) & set(b)) for a, b in zip(expected, found, strict=True)) / sum(map(len, expected))


if __name__ == "__main__":
    main()
