"""A document collection on one machine: load speed, memory, and restart time.

`python -m bench.collections [chunks ...]`: default 100000 1000000. Documents of four chunks of thirty made-up words,
whose vectors (384 dimensions) the client brings; a server process on SQLite, a client process, both on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import chassis
from bench import report
from hansei.search.v1 import collection_pb2, collection_service_pb2_grpc, search_pb2
from hansei.search.v1 import collection_service_pb2 as pb

SIZES = (100_000, 1_000_000)
DIMENSION, CHUNKS, WORDS, VOCABULARY, CENTRES = 384, 4, 30, 30_000, 2_000
MODEL = "hashing-v1-1536"
QUERIES = 100
NAME = "bench"
BLOCK = 500
EXACT_LIMIT = 100_000


class SyntheticDocuments:
    """Made-up documents, block by block: words by Zipf's law, vectors in clusters."""

    def __init__(self, seed: int = 1) -> None:
        self._rng = np.random.default_rng(seed)
        self._words = np.array([f"word{number}" for number in range(VOCABULARY)])
        frequency = np.cumsum(1.0 / np.arange(1, VOCABULARY + 1))
        self._frequency = frequency / frequency[-1]
        self._centres = self._rng.normal(size=(CENTRES, DIMENSION)).astype(np.float32)

    def texts(self, count: int, words: int = WORDS) -> list[str]:
        drawn = np.searchsorted(self._frequency, self._rng.random((count, words)))
        return [" ".join(row) for row in self._words[drawn]]

    def vectors(self, count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        near = self._centres[self._rng.integers(CENTRES, size=count)]
        return near + self._rng.normal(size=(count, DIMENSION)).astype(np.float32)

    async def documents(self, count: int) -> AsyncIterator[pb.LoadDocumentsRequest]:
        yield pb.LoadDocumentsRequest(head=pb.LoadHead(collection=NAME))
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            texts, vectors = self.texts(size * CHUNKS), self.vectors(size * CHUNKS)
            for number in range(size):
                parts = slice(number * CHUNKS, (number + 1) * CHUNKS)
                document = _document(f"d{start + number:08}", texts[parts], vectors[parts])
                yield pb.LoadDocumentsRequest(document=document)

    def queries(self) -> list[collection_pb2.CollectionQuery]:
        vectors = self.vectors(QUERIES)
        return [
            collection_pb2.CollectionQuery(query_text=text, embedding=_embedding(vector))
            for text, vector in zip(self.texts(QUERIES, 7), vectors, strict=True)
        ]


class SearchServer:
    """Search as a process of its own, on files in `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        settings = {
            "LLM_PROVIDER": "offline",
            "EMBEDDING_PROVIDER": "hashing",
            "HANSEI_SEARCH_DATABASE_URL": str(folder / "search.db"),
            "HANSEI_SEARCH_SNAPSHOT_DIR": str(folder / "snapshots"),
            "HANSEI_SEARCH_SNAPSHOT_SECONDS": "20",
            "HANSEI_LISTEN_ADDRESS": "127.0.0.1:0",
            "HANSEI_LAME_DUCK_SECONDS": "0",
            "OPENBLAS_NUM_THREADS": "1",
            **(environment or {}),
        }
        self.began = time.perf_counter()
        command = [sys.executable, "-m", "services.search"]
        self.process = subprocess.Popen(command, env={**os.environ, **settings}, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if '"server started"' in line:
                self.address = json.loads(line)["address"]
                break
        else:
            raise SystemExit("the server did not start")

    def megabytes(self, field: str) -> float:
        """Return a field of the memory status: `VmHWM` is the peak, `RssAnon` the memory without mapped files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1]) / 1024

    def stop(self, number: signal.Signals) -> float:
        """End the process; return the seconds that took."""
        began = time.perf_counter()
        self.process.send_signal(number)
        self.process.communicate()
        return time.perf_counter() - began


async def load(
    server: SearchServer,
    corpus: SyntheticDocuments,
    documents: int,
    backend: collection_pb2.CollectionBackend.ValueType = collection_pb2.COLLECTION_BACKEND_HYBRID,
) -> None:
    """Load the documents through the contract, as any client would."""
    peers = chassis.Peers({"search": server.address})
    stub: Any = collection_service_pb2_grpc.CollectionServiceStub(peers.get_channel("search"))
    await stub.CreateCollection(pb.CreateCollectionRequest(name=NAME, backend=backend))
    async for progress in stub.LoadDocuments(corpus.documents(documents)):
        if progress.failed:
            raise SystemExit(str(progress.failures[0]))
    await peers.close()


async def ask(server: SearchServer, queries: list[collection_pb2.CollectionQuery], chunks: int) -> dict[str, float]:
    """Return the seconds from the start of the process to the first response, and the median of the others in ms.

    Wait for preselection if the collection is large enough for it.
    """
    peers = chassis.Peers({"search": server.address})
    stub: Any = collection_service_pb2_grpc.CollectionServiceStub(peers.get_channel("search"))

    async def answer(query: collection_pb2.CollectionQuery) -> pb.SearchCollectionResponse:
        request = pb.SearchCollectionRequest(collection=NAME, query=query)
        response: pb.SearchCollectionResponse = await stub.SearchCollection(request, timeout=3600)
        return response

    while True:
        try:
            approximate = (await answer(queries[0])).approximate
            break
        except chassis.errors.DeadlineExceeded:
            pass  # the work continues: the next call waits for it
    first = time.perf_counter() - server.began
    while chunks > EXACT_LIMIT and not approximate:
        await asyncio.sleep(1)
        approximate = (await answer(queries[0])).approximate
    ready = time.perf_counter() - server.began
    times = []
    for query in queries[1:]:
        began = time.perf_counter()
        await answer(query)
        times.append(time.perf_counter() - began)
    await peers.close()
    return {"first_answer_s": first, "ready_s": ready, "query_p50_ms": float(np.median(times) * 1e3)}


async def measure_restarts(chunks: int) -> list[dict[str, Any]]:
    """Measure a load, a restart from the snapshot of the first run, and one from the database alone."""
    corpus = SyntheticDocuments()
    with tempfile.TemporaryDirectory(prefix="hansei-bench-") as name:
        folder = Path(name)
        server = SearchServer(folder)
        try:
            began = time.perf_counter()
            await load(server, corpus, chunks // CHUNKS)
            loading = time.perf_counter() - began
            queries = corpus.queries()
            measured = [_row("load", chunks, loading, server, await ask(server, queries, chunks), folder)]
            print(measured[-1], file=sys.stderr)
            print(f"snapshot at the end: {server.stop(signal.SIGTERM):.1f} s", file=sys.stderr)
            for what in ("restart from a snapshot", "restart from the database"):
                server = SearchServer(folder)
                answer_times = await ask(server, queries, chunks)
                measured.append(_row(what, chunks, answer_times["first_answer_s"], server, answer_times, folder))
                print(measured[-1], file=sys.stderr)
                server.stop(signal.SIGKILL)
                shutil.rmtree(folder / "snapshots", ignore_errors=True)
            return measured
        finally:
            server.process.kill()


def _row(
    what: str, chunks: int, seconds: float, server: SearchServer, answer_times: dict[str, float], folder: Path
) -> dict[str, Any]:
    return {
        "what": what,
        "chunks": chunks,
        "seconds": seconds,
        "chunks_per_s": chunks / seconds,
        "ready_s": answer_times["ready_s"],
        "query_p50_ms": answer_times["query_p50_ms"],
        "peak_mb": server.megabytes("VmHWM"),
        "anonymous_mb": server.megabytes("RssAnon"),
        "database_mb": _megabytes(folder.glob("search.db*")),
        "snapshot_mb": _megabytes(folder.glob("snapshots/collections/*")),
    }


def _megabytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size for file in files) / 1e6


def _document(name: str, texts: list[str], vectors: Any) -> collection_pb2.Document:
    ends = np.cumsum([len(text) + 1 for text in texts]).tolist()
    starts = [0, *ends[:-1]]
    chunks = [
        collection_pb2.DocumentChunk(start=start, end=end - 1, embedding=_embedding(vector))
        for start, end, vector in zip(starts, ends, vectors, strict=True)
    ]
    return collection_pb2.Document(id=name, text="\n".join(texts), chunks=chunks, metadata={"part": name[-1]})


def _embedding(vector: Any) -> search_pb2.Embedding:
    return search_pb2.Embedding(values=vector.astype("<f4").tobytes(), dimension=DIMENSION, model=MODEL)


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    measured = [row for size in sizes for row in asyncio.run(measure_restarts(size))]
    report.write("collections", {"machine": report.machine(), "load": os.getloadavg(), "rows": measured})


if __name__ == "__main__":
    main()
