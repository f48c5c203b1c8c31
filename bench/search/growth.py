"""The time of a query by the size of the index, exact and preselecting, and the agreement of both.

`python -m bench.search.growth [documents ...]`: default 10000 100000 1000000; the last takes 12 GB and half an hour.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from functools import partial
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from bench.search import results  # noqa: E402
from bench.search.corpus import DIMENSION, create_corpus  # noqa: E402
from bench.search.server import PROBES  # noqa: E402
from libs.embedding.terms import tokenize_mixed  # noqa: E402
from services.search.adapters.faiss_neighbours import FaissNeighbours  # noqa: E402
from services.search.adapters.loops import load_loops  # noqa: E402
from services.search.domain.bm25 import LUCENE  # noqa: E402
from services.search.domain.entry import Entry  # noqa: E402
from services.search.domain.fusion import Fusion  # noqa: E402
from services.search.domain.index import HybridIndex  # noqa: E402
from services.search.domain.query import CandidateFilter, Ranking  # noqa: E402
from services.search.domain.view import NO_LIMIT, IndexView, LoopsInUse, RankingRules  # noqa: E402

SIZES = (10_000, 100_000, 1_000_000)
QUERIES = 100
EVERYTHING, FUSION = CandidateFilter(min_confidence=0.3), Fusion(0.5)


def row(documents: int) -> dict[str, Any]:
    """Median times in microseconds, and the share of the exact top ten that preselection finds."""
    corpus = create_corpus(documents, QUERIES)
    rules = RankingRules(LUCENE, LoopsInUse(load_loops()), 0, partial(FaissNeighbours.build, probes=PROBES), 0.5)
    index: HybridIndex[int] = HybridIndex(DIMENSION, tokenize_mixed, rules)
    index.apply([Entry(str(number), text, number) for number, text in enumerate(corpus.texts)], corpus.vectors)
    began = time.perf_counter()
    index.build_neighbours()
    built = time.perf_counter() - began
    exact = replace(index.view, rules=rules._replace(exact_limit=NO_LIMIT), _candidates={})
    terms = [tokenize_mixed(text) for text in corpus.queries]

    def answers(view: IndexView[int]) -> tuple[list[Ranking[int]], float]:
        rankings, times = [], []
        for words, vector in zip(terms, corpus.query_vectors, strict=True):
            began = time.perf_counter()
            rankings.append(view.search(words, vector, EVERYTHING, FUSION, 10))
            times.append(time.perf_counter() - began)
        return rankings, float(np.median(times) * 1e6)

    (expected, exact_us), (found, pool_us) = answers(exact), answers(index.view)
    agreeing = sum(
        len({r.item for r in a.results} & {r.item for r in b.results}) for a, b in zip(expected, found, strict=True)
    )
    return {
        "documents": documents,
        "exact_p50_us": exact_us,
        "preselected_p50_us": pool_us,
        "recall_at_10": agreeing / (10 * QUERIES),
        "build_s": built,
    }


if __name__ == "__main__":
    sizes = tuple(int(argument) for argument in sys.argv[1:]) or SIZES
    results.write("growth", [row(size) for size in sizes])
