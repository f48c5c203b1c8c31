"""From the start of a search process to its first answer, over a playbook whose snapshot an earlier one left.

`python -m bench.search.restart [bullets]`, default 100000. The query brings its vector: what a model takes to load is
no part of it. `cpu_s` is the processor time of the process until then.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import grpc  # noqa: E402
import numpy as np  # noqa: E402

from bench.load import cpu_seconds  # noqa: E402
from bench.search import results  # noqa: E402
from bench.search.corpus import DIMENSION, create_corpus  # noqa: E402
from bench.search.server import run_server, write_snapshot  # noqa: E402
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc  # noqa: E402
from libs.embedding.minilm import MiniLM  # noqa: E402

STARTS = 7


def main() -> None:
    """Measure and write."""
    bullets = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder, corpus = Path(name), create_corpus(bullets, 1)
        write_snapshot(folder, "d", corpus)
        vector = search_pb2.Embedding(
            values=corpus.query_vectors[0].tobytes(), dimension=DIMENSION, model=MiniLM.model_id
        )
        query = search_pb2.SearchQuery(query_text=corpus.queries[0], embedding=vector)
        request = search_service_pb2.SearchRequest(dataset="d", query=query)
        starts = np.array([_measure_start(folder, f"start-{number}", request) for number in range(STARTS)])
    (seconds, cpu), slowest = np.median(starts, axis=0), starts[:, 0].max()
    row: dict[str, Any] = {"bullets": bullets, "first_answer_s": seconds, "slowest_s": slowest, "cpu_s": cpu}
    print(row)
    results.write("restart", [row])


def _measure_start(folder: Path, name: str, request: search_service_pb2.SearchRequest) -> tuple[float, float]:
    """Return the seconds by the clock and of the processor until the first response."""
    began = time.perf_counter()
    with run_server("services.search", folder, name, {}) as (address, process):
        options = [(f"grpc.{which}_reconnect_backoff_ms", 20) for which in ("initial", "min", "max")]
        with grpc.insecure_channel(address, options) as channel:
            stub: Any = search_service_pb2_grpc.SearchServiceStub(channel)
            while True:
                try:
                    found = stub.Search(request, wait_for_ready=True, timeout=120)
                    break
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    time.sleep(0.01)
            seconds = time.perf_counter() - began
            if not found.results:
                raise SystemExit("the snapshot was not loaded")
            return seconds, cpu_seconds(process.pid)


if __name__ == "__main__":
    main()
