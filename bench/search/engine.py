"""One hybrid query and one added document, in this engine and in what people use instead.

`python -m bench.search.engine [documents ...]`: default 1000 10000 100000; rows of other sizes stay as they are.
Everything runs in one process and thread; peers that bring their own threads keep them. Rounds of short batches go back
and forth between this engine and each peer, and a ratio is the median over the rounds. On a machine that is busy long
operations are interrupted and short ones are not; so beside what the clock says stands what the processor was used.
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
from bench.search.corpus import Corpus, corpus  # noqa: E402
from bench.search.peers import OURS, Engine, installed, missing  # noqa: E402

QUERIES = 200
SIZES = (1_000, 10_000, 100_000)
ROUNDS, BATCH_SECONDS, BATCH = 5, 0.2, 50
ADDED_A_ROUND = 10
SLOW_ADD_SECONDS = 1.0
# At this size its constructor alone takes minutes, and every added document makes it anew.
LARGEST = {"rank_bm25 + FAISS": 10_000}


class Took(NamedTuple):
    """Seconds by the clock and of the processor, all threads together."""

    wall: float
    cpu: float


class Measured:
    """An engine with what it took, round by round, in seconds."""

    def __init__(self, name: str, make: Callable[[Corpus], Engine], given: Corpus) -> None:
        self.name = name
        self._given = given
        self._pairs = list(zip(given.queries, given.query_vectors, strict=True))
        self._added = self._asked = 0
        began = time.perf_counter()
        self._engine = make(given)
        self.load_seconds = time.perf_counter() - began
        self._engine.search(*self._pairs[0])
        self.queries: list[Took] = []
        self.adds: list[Took] = []

    def query(self) -> Took:
        """The median time of a batch of queries."""
        took: list[Took] = []
        while len(took) < 3 or (sum(each.wall for each in took) < BATCH_SECONDS and len(took) < BATCH):
            asked = self._pairs[self._asked % QUERIES]
            self._asked += 1
            took.append(_timed(lambda asked=asked: self._engine.search(*asked)))  # type: ignore[misc]
        self.queries += took
        return _medians(took)

    def add(self) -> Took:
        """The median time of a batch of added documents; what is always very slow is done twice and remembered.

        Twice, because a first one may be slow by making room for more.
        """
        if len(self.adds) > 1 and self.adds[1].wall > SLOW_ADD_SECONDS:
            return self.adds[1]
        took: list[Took] = []
        while len(took) < 2 or (len(took) < ADDED_A_ROUND and sum(each.wall for each in took) < SLOW_ADD_SECONDS):
            text, vector = self._pairs[self._added % QUERIES]
            number, text = len(self._given.texts) + self._added, f"{text} new{self._added}"
            vector = np.ascontiguousarray(vector)
            self._added += 1
            took.append(_timed(lambda n=number, t=text, v=vector: self._engine.add(n, t, v)))  # type: ignore[misc]
        self.adds += took
        return _medians(took)


def _timed(work: Callable[[], object]) -> Took:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    used = time.process_time() - processor
    return Took(time.perf_counter() - wall, used)


def _medians(took: Sequence[Took]) -> Took:
    return Took(*(float(np.median(column)) for column in zip(*took, strict=True)))


def rows_of(size: int) -> Iterator[list[dict[str, Any]]]:
    """A row for each engine at this size, with what it takes compared to ours; all so far, peer by peer."""
    given = corpus(size, QUERIES)
    engines = {name: make for name, make in installed().items() if size <= LARGEST.get(name, size)}
    ours = Measured(OURS, engines.pop(OURS), given)
    rows: list[dict[str, Any]] = []
    for name, make in engines.items():
        peer = Measured(name, make, given)
        ratios = [(*_ratio(ours.query, peer.query), *_ratio(ours.add, peer.add)) for _ in range(ROUNDS)]
        rows.append(_row(size, peer, [float(np.median(column)) for column in zip(*ratios, strict=True)]))
        print(rows[-1], flush=True)
        yield [_row(size, ours, [1.0] * 4), *rows]
        del peer
        gc.collect()


def _ratio(ours: Callable[[], Took], theirs: Callable[[], Took]) -> Took:
    before, peer, after = ours(), theirs(), ours()
    return Took(2 * peer.wall / (before.wall + after.wall), 2 * peer.cpu / (before.cpu + after.cpu))


def _row(size: int, engine: Measured, ratios: Sequence[float]) -> dict[str, Any]:
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
        for of_size in rows_of(size):
            rows = sorted(before + of_size, key=lambda row: int(row["documents"]))
            results.write("engine", rows, {"missing": missing()})
    if find_spec("matplotlib"):
        results.plot_engines(rows)
