"""One hybrid query and one added document, in this engine and in what people use instead.

`python -m bench.search.engine [documents ...]`: default 1000 10000 100000. Everything runs in one process on one thread
(peers that bring their own threads keep them), one engine after the other on the same corpus, queries in turn.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from bench.search import results  # noqa: E402
from bench.search.corpus import Corpus, corpus  # noqa: E402
from bench.search.peers import Engine, installed  # noqa: E402

QUERIES, ADDED = 50, 20
SIZES = (1_000, 10_000, 100_000)
SECONDS = 3.0
# At this size its constructor alone takes minutes, and an added document makes it anew.
LARGEST = {"rank_bm25 + FAISS": 10_000}


def measured(name: str, make: Callable[[Corpus], Engine], given: Corpus) -> dict[str, Any]:
    """Median times of one engine, in microseconds."""
    began = time.perf_counter()
    engine = make(given)
    loaded = time.perf_counter() - began
    pairs = list(zip(given.queries, given.query_vectors, strict=True))
    engine.search(*pairs[0])
    times: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(times) < 20 or (time.perf_counter() < until and len(times) < 2000):
        began = time.perf_counter()
        engine.search(*pairs[len(times) % len(pairs)])
        times.append(time.perf_counter() - began)
    adds: list[float] = []
    for number in range(ADDED):
        text, vector = given.queries[number] + f" new{number}", np.ascontiguousarray(given.query_vectors[number])
        began = time.perf_counter()
        engine.add(len(given.texts) + number, text, vector)
        adds.append(time.perf_counter() - began)
        if sum(adds) > SECONDS * 5:
            break
    return {
        "documents": len(given.texts),
        "engine": name,
        "query_p50_us": float(np.median(times) * 1e6),
        "query_p99_us": float(np.quantile(times, 0.99) * 1e6),
        "add_p50_us": float(np.median(adds) * 1e6),
        "load_s": loaded,
    }


def run(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row for each engine at each size, with what it takes compared to ours."""
    rows: list[dict[str, Any]] = []
    for size in sizes:
        given = corpus(size, QUERIES)
        of_size: list[dict[str, Any]] = []
        for name, make in installed().items():
            if size <= LARGEST.get(name, size):
                of_size.append(measured(name, make, given))
                print(of_size[-1], flush=True)
                gc.collect()
        ours = of_size[0]
        for row in of_size:
            row["query_to_ours"] = row["query_p50_us"] / ours["query_p50_us"]
            row["add_to_ours"] = row["add_p50_us"] / ours["add_p50_us"]
        rows += of_size
    return rows


if __name__ == "__main__":
    rows = run(tuple(int(argument) for argument in sys.argv[1:]) or SIZES)
    results.write("engine", rows)
    if find_spec("matplotlib"):
        results.plot_engines(rows)
