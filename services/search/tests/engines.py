"""Ways of computing that an index may be given, and indexes that use them."""

from __future__ import annotations

from typing import Any

import numpy as np

from services.search.adapters.faiss_neighbours import FaissNeighbours
from services.search.adapters.loops import load_loops
from services.search.domain.bm25 import OKAPI, Variant
from services.search.domain.index import HybridIndex
from services.search.domain.loops import NUMPY_LOOPS, Loops
from services.search.domain.neighbours import NeighbourIndex
from services.search.domain.postings import Int64s
from services.search.domain.tokenizers import Tokenizer, tokenize_whitespace
from services.search.domain.vectors import Float32s
from services.search.domain.view import NO_LIMIT, LoopsInUse, RankingRules

COMPILED = load_loops()
LOOPS = {"numpy": NUMPY_LOOPS, "compiled": COMPILED}


def build_neighbours(units: Float32s, rows: Int64s, covered_rows: int) -> NeighbourIndex:
    return FaissNeighbours.build(units, rows, covered_rows, probes=200)


def rules(loops: Loops = COMPILED, variant: Variant = OKAPI, exact_limit: int = NO_LIMIT) -> RankingRules:
    return RankingRules(variant, LoopsInUse(loops), exact_limit, build_neighbours)


def new_index(
    dimension: int,
    loops: Loops = COMPILED,
    variant: Variant = OKAPI,
    exact_limit: int = NO_LIMIT,
    tokenize: Tokenizer = tokenize_whitespace,
) -> HybridIndex[Any]:
    return HybridIndex(dimension, tokenize, rules(loops, variant, exact_limit))


def unit32(vector: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(vector)
    return (vector / norm if norm else vector).astype(np.float32)
