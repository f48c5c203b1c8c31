"""The weight of the vector score: fixed, scaled by the model, or risen where the candidates lack words of the query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libs.embedding.hashing import Hashing
from libs.embedding.minilm import MiniLM
from libs.embedding.multilingual import MultilingualE5
from services.search.adapters.reference import ReferenceIndex
from services.search.domain.bm25 import LUCENE, OKAPI, Variant
from services.search.domain.entry import Entry
from services.search.domain.fusion import Fusion
from services.search.domain.loops import NUMPY_LOOPS
from services.search.domain.query import CandidateFilter
from services.search.domain.tokenizers import tokenize_whitespace
from services.search.domain.vector_weight import VectorWeight
from services.search.tests.engines import COMPILED, new_index

TEXTS = ["alpha beta", "alpha gamma gamma", "delta beta", "epsilon zeta", "eta"]
ENGINES = {
    "numpy": lambda variant: new_index(1, NUMPY_LOOPS, variant),
    "compiled": lambda variant: new_index(1, COMPILED, variant),
    "preselecting": lambda variant: new_index(1, COMPILED, variant, exact_limit=0),
    "reference": lambda variant: ReferenceIndex(1, tokenize_whitespace, variant),
}


# The best text scores 1.352138 in Okapi BM25 (section 6 of the specification). With each word once, a text of average
# length scores idf · 2.5 / 2.5: 0.336472 for "beta", 1.098612 for "gamma", ln 11 = 2.397895 for a word that is absent.
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(
    ("variant", "words", "alpha"),
    [
        (OKAPI, "gamma", 0.5),  # a score above 0.75 of the attainable one is enough
        (OKAPI, "beta gamma", 0.5),  # 1.352138 is more than 0.75 of 1.435085
        (OKAPI, "beta gamma nope", 0.5 + 0.5 * (1 - 1.352138 / (0.75 * 3.832979))),
        (OKAPI, "nope nope", 1.0),
        (OKAPI, "", 1.0),
        # Lucene: ln 4 of a possible ln 4 + ln 12; k1 0.9, "eta" is half as long as the average.
        (LUCENE, "eta nope", 0.5 + 0.5 * (1 - np.log(4) / (1 + 0.9 * 0.7) / (0.75 * (np.log(4) + np.log(12)) / 1.9))),
    ],
)
def test_the_weight_rises_with_the_words_that_no_text_has(
    engine: Any, variant: Variant, words: str, alpha: float
) -> None:
    index = engine(variant)
    index.apply([Entry(text, text, text) for text in TEXTS], np.ones((5, 1)))
    index.build_neighbours()
    query = words.split(), np.ones(1, np.float32), CandidateFilter()
    assert index.view.search(*query, Fusion(0.5, rise=0.5), 5).alpha == pytest.approx(alpha, abs=1e-6)
    assert index.view.search(*query, Fusion(0.5), 5).alpha == 0.5


@pytest.mark.parametrize(
    ("weight", "model", "text", "fusion"),
    [
        (VectorWeight(0.5), MultilingualE5, "締め切り", Fusion(0.5, "rrf", 0.5)),
        (VectorWeight(0.8), MultilingualE5, "deadline", Fusion(0.8, "rrf", 1 - 0.8)),
        (VectorWeight(0.0), MultilingualE5, "deadline", Fusion(0.0, "rrf")),
        (VectorWeight(0.5, scaled=False), MultilingualE5, "deadline", Fusion(0.5, "rrf")),
        (VectorWeight(0.5), MiniLM, "deadline", Fusion(0.5, "rrf")),
        (VectorWeight(0.5), MiniLM, "q東京東", Fusion(0.125, "rrf")),
        (VectorWeight(0.5), Hashing, "締め切り", Fusion(0.2, "rrf")),
    ],
)
def test_only_a_model_across_languages_lets_it_rise(
    weight: VectorWeight, model: Any, text: str, fusion: Fusion
) -> None:
    assert weight.choose_fusion(text, model, "rrf") == fusion
