"""The backends of collections side by side: load, queries, and the results that an exact search returns.

`python -m bench.collection_backends [chunks ...]`: default 100000 10000. The documents are those of
`bench.collections`, loaded over gRPC into one search process after the other, on SQLite: the built-in index, pgvector,
and the local engine of Qdrant's library. The built-in index scores every chunk, without the best sentence, and so is
the reference of `recall`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

import chassis
from bench import report
from bench.collections import CHUNKS, NAME, SearchServer, SyntheticDocuments, load
from hansei.search.v1 import collection_pb2, collection_service_pb2_grpc
from hansei.search.v1 import collection_service_pb2 as pb
from tests.support.postgres_server import pgvector_server

SIZES = (100_000, 10_000)
QDRANT_CHUNKS, QDRANT_QUERIES = 10_000, 20
"""The engine of Qdrant's library scans everything in Python: larger collections would take an hour."""
TOP_K = 10
WEIGHTS: Mapping[str, float | None] = {"combined": None, "vectors": 1.0, "words": 0.0}
"""The weight of the vector score by the name of its recall; None is the default."""
BACKENDS = {
    "built in": collection_pb2.COLLECTION_BACKEND_HYBRID,
    "pgvector": collection_pb2.COLLECTION_BACKEND_PGVECTOR,
    "qdrant-client local": collection_pb2.COLLECTION_BACKEND_QDRANT,
}
SETTINGS = {
    "HANSEI_SEARCH_SENTENCE_WEIGHT": "0",
    "HANSEI_SEARCH_EXACT_LIMIT": "100000000",
    "HANSEI_SEARCH_SNAPSHOT_SECONDS": "5",
}
Found = list[set[tuple[str, int]]]


async def search(
    server: SearchServer, queries: list[collection_pb2.CollectionQuery], **fields: Any
) -> tuple[Found, float]:
    """Return the chunks that each query finds, and the median of the times in ms; the first query is not timed."""
    peers = chassis.Peers({"search": server.address})
    stub: Any = collection_service_pb2_grpc.CollectionServiceStub(peers.get_channel("search"))
    found: Found = []
    times: list[float] = []
    for query in [queries[0], *queries]:
        request = pb.SearchCollectionRequest(collection=NAME, query=query)
        request.query.MergeFrom(collection_pb2.CollectionQuery(top_k=TOP_K, **fields))
        began = time.perf_counter()
        response = await stub.SearchCollection(request, timeout=600)
        times.append(time.perf_counter() - began)
        found.append({(passage.document_id, passage.chunk) for passage in response.results})
    await peers.close()
    return found[1:], float(np.median(times[1:]) * 1e3)


def wait_for_neighbours(location: str) -> None:
    """Wait until PostgreSQL has built the neighbour index."""
    with psycopg.connect(location, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indisvalid AND relname LIKE %s"
        while connection.execute(query, ["%neighbours"]).fetchone() != (1,):
            time.sleep(0.5)


def compute_recall(found: Found, expected: Found) -> float:
    """Return the share of the expected chunks that were found."""
    pairs = list(zip(found, expected, strict=False))  # Qdrant is asked fewer queries
    return sum(len(some & whole) for some, whole in pairs) / sum(len(whole) for _, whole in pairs)


def measure(name: str, chunks: int, folder: Path, location: str) -> tuple[dict[str, Any], dict[str, Found]]:
    """Load a collection, and search it; return a row without recalls, and what was found."""
    corpus = SyntheticDocuments()
    environment = {**SETTINGS, "HANSEI_SEARCH_QDRANT": str(folder / "qdrant"), "HANSEI_SEARCH_PGVECTOR": location}
    server = SearchServer(folder, environment)
    try:
        began = time.perf_counter()
        asyncio.run(load(server, corpus, chunks // CHUNKS, BACKENDS[name]))
        loaded = time.perf_counter()
        queries = corpus.queries()
        if BACKENDS[name] == collection_pb2.COLLECTION_BACKEND_QDRANT:
            queries = queries[:QDRANT_QUERIES]
        asyncio.run(search(server, queries[:1]))
        if BACKENDS[name] == collection_pb2.COLLECTION_BACKEND_PGVECTOR and chunks > 10_000:
            wait_for_neighbours(location)
        ready = time.perf_counter()
        found, times = {}, {}
        for weighted, alpha in WEIGHTS.items():
            found[weighted], times[weighted] = asyncio.run(search(server, queries, alpha=alpha))
        filtered = asyncio.run(search(server, queries, metadata={"part": "7"}))
        row = {
            "backend": name,
            "chunks": chunks,
            "load_s": loaded - began,
            "ready_s": ready - began,
            "query_p50_ms": times["combined"],
            "filtered_p50_ms": filtered[1],
            "peak_mb": server.megabytes("VmHWM"),
        }
        return row, {**found, "filtered": filtered[0]}
    finally:
        server.stop(signal.SIGKILL)


def main() -> None:
    """Measure all backends and write the table."""
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        server = stack.enter_context(pgvector_server(Path()))
        for chunks in sizes:
            expected: dict[str, Found] = {}
            for name in BACKENDS:
                if BACKENDS[name] == collection_pb2.COLLECTION_BACKEND_QDRANT and chunks > QDRANT_CHUNKS:
                    continue
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hansei-bench-")))
                row, found = measure(name, chunks, folder, server.database())
                expected = expected or found
                recalls = {f"recall_{kind}": compute_recall(found[kind], expected[kind]) for kind in expected}
                rows.append({**row, **recalls})
                report.write(
                    "collection_backends", {"machine": report.machine(), "load": os.getloadavg(), "rows": rows}
                )


if __name__ == "__main__":
    main()
