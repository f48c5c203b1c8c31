"""One hybrid query and one added document, in this engine and in its baselines.

`python -m bench.search.engine [documents ...]`: default 1000 10000 100000; rows of other sizes stay as they are.
Everything runs in one process and thread, except baselines that start their own threads. Rounds of short batches
alternate between this engine and each baseline; a ratio is the median over the rounds. A busy machine interrupts long
operations more than short ones, so the processor time stands beside the time of the clock.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from bench.search import results  # noqa: E402
from bench.search.baselines import OURS, Engine, list_installed, list_missing  # noqa: E402
from bench.search.corpus import Corpus, create_corpus  # noqa: E402

QUERIES = 200
SIZES = (1_000, 10_000, 100_000)
ROUNDS, BATCH_SECONDS, BATCH = 5, 0.2, 50
ADDED_A_ROUND = 10
SLOW_ADD_SECONDS = 1.0
# At this size its constructor takes minutes, and every added document needs a new object.
LARGEST = {"rank_bm25 + FAISS": 10_000}


class Duration(NamedTuple):
    """Seconds by the clock and of the processor, all threads together."""

    wall: float
    cpu: float


class EngineTimes:
    """An engine with its times, round by round, in seconds."""

    def __init__(self, name: str, make: Callable[[Corpus], Engine], corpus: Corpus) -> None:
        self.name = name
        self._corpus = corpus
        self._pairs = list(zip(corpus.queries, corpus.query_vectors, strict=True))
        self._added = self._query_count = 0
        began = time.perf_counter()
        self._engine = make(corpus)
        self.load_seconds = time.perf_counter() - began
        self._engine.search(*self._pairs[0])
        self.queries: list[Duration] = []
        self.adds: list[Duration] = []

    def query(self) -> Duration:
        """Measure a batch of queries and return their median time."""
        durations: list[Duration] = []
        while len(durations) < 3 or (
            sum(duration.wall for duration in durations) < BATCH_SECONDS and len(durations) < BATCH
        ):
            pair = self._pairs[self._query_count % QUERIES]
            self._query_count += 1
            durations.append(_measure_time(lambda pair=pair: self._engine.search(*pair)))  # type: ignore[misc]
        self.queries += durations
        return _medians(durations)

    def add(self) -> Duration:
        """Return the median time of a batch of added documents; very slow additions are measured twice only.

        Twice, because a first one may be slow by making room for more.
        """
        if len(self.adds) > 1 and self.adds[1].wall > SLOW_ADD_SECONDS:
            return self.adds[1]
        durations: list[Duration] = []
        while len(durations) < 2 or (
            len(durations) < ADDED_A_ROUND and sum(duration.wall for duration in durations) < SLOW_ADD_SECONDS
        ):
            text, vector = self._pairs[self._added % QUERIES]
            number, text = len(self._corpus.texts) + self._added, f"{text} new{self._added}"
            vector = np.ascontiguousarray(vector)
            self._added += 1
            durations.append(_measure_time(lambda n=number, t=text, v=vector: self._engine.add(n, t, v)))  # type: ignore[misc]
        self.adds += durations
        return _medians(durations)


def _measure_time(work: Callable[[], object]) -> Duration:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    used = time.process_time() - processor
    return Duration(time.perf_counter() - wall, used)


def _medians(durations: Sequence[Duration]) -> Duration:
    return Duration(*(float(np.median(column)) for column in zip(*durations, strict=True)))


def measure_engines(size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of all engines measured so far at this size, with their times compared to ours."""
    corpus = create_corpus(size, QUERIES)
    engines = {name: make for name, make in list_installed().items() if size <= LARGEST.get(name, size)}
    ours = EngineTimes(OURS, engines.pop(OURS), corpus)
    rows: list[dict[str, Any]] = []
    for name, make in engines.items():
        baseline = EngineTimes(name, make, corpus)
        ratios = [(*_ratio(ours.query, baseline.query), *_ratio(ours.add, baseline.add)) for _ in range(ROUNDS)]
        rows.append(_row(size, baseline, [float(np.median(column)) for column in zip(*ratios, strict=True)]))
        print(rows[-1], flush=True)
        yield [_row(size, ours, [1.0] * 4), *rows]
        del baseline
        gc.collect()


def _ratio(ours: Callable[[], Duration], theirs: Callable[[], Duration]) -> Duration:
    before, baseline, after = ours(), theirs(), ours()
    return Duration(2 * baseline.wall / (before.wall + after.wall), 2 * baseline.cpu / (before.cpu + after.cpu))


def _row(size: int, engine: EngineTimes, ratios: Sequence[float]) -> dict[str, Any]:
    query, add = _medians(engine.queries), _medians(engine.adds)
    return {
        "documents": size,
        "engine": engine.name,
        "query_p50_us": query.wall * 1e6,
        "query_cpu_us": query.cpu * 1e6,
        "add_p50_us": add.wall * 1e6,
        "add_cpu_us": add.cpu * 1e6,
        "load_s": engine.load_seconds,
        "query_to_ours": ratios[0],
        "query_cpu_to_ours": ratios[1],
        "add_to_ours": ratios[2],
        "add_cpu_to_ours": ratios[3],
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    sizes = tuple(int(argument) for argument in sys.argv[1:]) or SIZES
    rows = [row for row in results.read("engine") if row["documents"] not in sizes]
    for size in sizes:
        before = rows
        for of_size in measure_engines(size):
            rows = sorted(before + of_size, key=lambda row: int(row["documents"]))
            results.write("engine", rows, {"missing": list_missing()})
    if find_spec("matplotlib"):
        results.plot_engines(rows)
