"""The in-process names of the specification, against its vectors and plain reference implementations."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from libs.embedding.errors import EmbeddingFailed
from services.search.adapters.reference import ReferenceIndex
from services.search.compat import EmbeddingClient, HybridSearch, SearchQuery, SearchResult
from services.search.domain.bm25 import LUCENE, OKAPI, Variant
from services.search.domain.bullet import IndexedBullet
from services.search.domain.entry import Entry
from services.search.domain.errors import AlphaOutOfRange, MinConfidenceNotANumber, TopKTooSmall
from services.search.domain.fusion import Fusion, scale_min_max, score_reciprocal_ranks, weigh_scores
from services.search.domain.loops import NUMPY_LOOPS
from services.search.domain.query import CandidateFilter
from services.search.domain.tokenizers import tokenize_whitespace
from services.search.tests.engines import COMPILED, new_index

MAIN = [
    ("b1", "alpha beta", (), [1.0, 0.0]),
    ("b2", "alpha gamma gamma", (), [0.0, 1.0]),
    ("b3", "delta", ("beta",), [0.6, 0.8]),
    ("b4", "epsilon zeta", (), [0.0, 0.0]),
    ("b5", "eta", (), [-1.0, 0.0]),
]


class Vectors:
    """An embedding model that knows the vectors of some texts, and counts how it is called."""

    def __init__(self, documents: dict[str, list[float]], query: list[float]) -> None:
        self.documents = documents
        self.query = query
        self.calls: list[list[str]] = []

    def embed_query(self, text: str) -> list[float]:
        self.calls.append([text])
        return self.query

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(texts)
        return [self.documents[text] for text in texts]


ENGINES: dict[str, Any] = {
    "built-in": partial(new_index, 1, COMPILED),
    "reference": partial(ReferenceIndex, 1, tokenize_whitespace),
}


def bm25_scores(
    corpus: list[list[str]], query: list[str], variant: Variant = OKAPI, engine: str = "built-in"
) -> np.ndarray:
    """Return the raw score of every document, as an index of the engine finds it."""
    index: Any = ENGINES[engine](variant)
    entries = [Entry(str(number), " ".join(terms), number) for number, terms in enumerate(corpus)]
    view = index.apply(entries, np.ones((len(corpus), 1)))
    found = view.search(query, np.ones(1, np.float32), CandidateFilter(), Fusion(0.0), len(corpus)).results
    return np.array([result.raw_bm25 for result in sorted(found, key=lambda result: result.item)])


def main_case(alpha: float) -> tuple[HybridSearch, list[IndexedBullet]]:
    model = Vectors({text: vector for _, text, _, vector in MAIN}, [1.0, 0.0])
    return HybridSearch(EmbeddingClient(model), alpha), [
        bullet(bullet_id, text, keywords=keywords) for bullet_id, text, keywords, _ in MAIN
    ]


def bullet(bullet_id: str, text: str, **fields: object) -> IndexedBullet:
    return IndexedBullet(id=bullet_id, section="s", content=text, searchable_text=text, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("alpha", "combined", "order"),
    [
        (0.5, [0.624422, 0.75, 0.524422, 0.25, 0], "b2 b1 b3 b4 b5"),
        (0.7, [0.774653, 0.65, 0.634653, 0.35, 0], "b1 b2 b3 b4 b5"),
        (1.0, [1, 0.5, 0.8, 0.5, 0], "b1 b3 b2 b4 b5"),
        (0.0, [0.248845, 1, 0.248845, 0, 0], "b2 b1 b3 b4 b5"),
    ],
)
def test_the_main_example_of_the_specification_holds(
    alpha: float, combined: list[float], order: str
) -> None:  # S-29 to S-34, section 6
    search, bullets = main_case(alpha)
    results = search.search(SearchQuery("beta gamma"), bullets)
    assert order.split() == [result.bullet.id for result in results]
    by_id = {result.bullet.id: result for result in results}
    assert combined == pytest.approx([by_id[f"b{i}"].combined_score for i in range(1, 6)], abs=1e-6)
    assert pytest.approx([by_id[f"b{i}"].raw_cosine for i in range(1, 6)], abs=1e-6) == [1, 0, 0.6, 0, -1]  # S-04
    assert pytest.approx([by_id[f"b{i}"].vector_score for i in range(1, 6)], abs=1e-6) == [1.0, 0.5, 0.8, 0.5, 0.0]
    raw = [0.336472, 1.352138, 0.336472, 0, 0]
    assert raw == pytest.approx([by_id[f"b{i}"].raw_bm25 for i in range(1, 6)], abs=1e-6)
    scaled = [0.248845, 1.0, 0.248845, 0, 0]
    assert scaled == pytest.approx([by_id[f"b{i}"].bm25_score for i in range(1, 6)], abs=1e-6)


def test_a_repeated_query_term_counts_again() -> None:  # S-24
    corpus = [[*text.split(), *keywords] for _, text, keywords, _ in MAIN]
    scores = bm25_scores(corpus, ["beta", "beta", "gamma"])
    assert pytest.approx(scores, abs=1e-6) == [0.672944, 1.352138, 0.672944, 0, 0]


@pytest.mark.parametrize(
    ("corpus", "query", "raw", "scaled"),
    [
        (["a b", "c d"], "a", [0, 0], [0.5, 0.5]),
        (["a b", "a d", "e", "f"], "a", [0, 0, 0, 0], [0.5] * 4),
        (["a b", "a c", "d"], "a", [0.058581, 0.058581, 0], [1, 1, 0]),
        (["a b", "a c", "a d", "e"], "a", [0.119418, 0.119418, 0.119418, 0], [1, 1, 1, 0]),
        (["a", "a a"], "a", [-0.473364, -0.519174], [1, 0]),
        (["a b"], "a", [-0.274653], [0.5]),
        (["", "a b", "c"], "a", [0, 0.352294, 0], [0, 1, 0]),
        (["", ""], "a", [0, 0], [0.5, 0.5]),
        ([text for _, text, _, _ in MAIN], "", [0] * 5, [0.5] * 5),
        ([text for _, text, _, _ in MAIN], "nope", [0] * 5, [0.5] * 5),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_degenerate_corpora_have_the_specified_scores(
    engine: str, corpus: list[str], query: str, raw: list[float], scaled: list[float]
) -> None:  # S-25, S-26, S-39
    scores = bm25_scores([text.split() for text in corpus], query.split(), engine=engine)
    assert raw == pytest.approx(scores, abs=1e-6)
    assert scaled == pytest.approx(scale_min_max(scores), abs=1e-6)


terms = st.sampled_from(["a", "b", "c", "d", "東京", "A"])
corpora = st.lists(st.lists(terms, max_size=8), min_size=1, max_size=12)


@given(corpora, st.lists(terms | st.just("unknown"), max_size=8))
@settings(max_examples=300)
def test_bm25_equals_rank_bm25(corpus: list[list[str]], query: list[str]) -> None:  # S-18 to S-26
    assume(any(corpus))
    assert BM25Okapi(corpus).get_scores(query) == pytest.approx(bm25_scores(corpus, query), abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@given(corpora, st.lists(terms, max_size=8))
@settings(max_examples=100)
def test_lucene_equals_its_formula(engine: str, corpus: list[list[str]], query: list[str]) -> None:
    assume(any(corpus))
    average = sum(map(len, corpus)) / len(corpus)
    expected = []
    for document in corpus:
        score = 0.0
        for term in query:
            holding = sum(term in other for other in corpus)
            frequency = document.count(term)
            idf = math.log(1 + (len(corpus) - holding + 0.5) / (holding + 0.5))
            score += idf * frequency / (frequency + 0.9 * (0.4 + 0.6 * len(document) / average))
        expected.append(score)
    assert expected == pytest.approx(bm25_scores(corpus, query, LUCENE, engine), abs=1e-9)


unit_floats = st.floats(0, 1)


# Feature: curator-agent, foundation Property 4: scores and alpha in [0,1]: combined = alpha·vector + (1−alpha)·bm25
@given(st.lists(st.tuples(unit_floats, unit_floats), min_size=1), unit_floats)
@settings(max_examples=100)
def test_the_combined_score_is_the_weighted_sum(scores: list[tuple[float, float]], alpha: float) -> None:  # S-31
    vector, bm25 = (np.array(column) for column in zip(*scores, strict=True))
    expected = [alpha * v + (1 - alpha) * b for v, b in scores]
    assert expected == pytest.approx(weigh_scores(vector, bm25, alpha), abs=1e-12)


votes = st.integers(0, 5)
many_bullets = st.lists(
    st.builds(
        IndexedBullet,
        id=st.uuids().map(str),
        section=st.sampled_from(["x", "y", "z"]),
        content=st.just(""),
        searchable_text=st.text(max_size=20),
        keywords=st.lists(st.text(max_size=5), max_size=2).map(tuple),
        helpful=votes,
        harmful=votes,
    ),
    max_size=15,
)


class LengthModel:
    """A model whose vectors depend on the text alone."""

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text)), float(text.count("a")), 1.0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


# Feature: curator-agent, foundation Property 5: section_filter and min_confidence: every result satisfies both
# Feature: curator-agent, foundation Property 6: results sorted by combined_score descending, at most top_k
@given(
    many_bullets,
    st.text(max_size=20),
    st.integers(1, 20),
    st.none() | st.lists(st.sampled_from(["x", "y", "w"]), max_size=2),
    unit_floats,
    unit_floats,
)
@settings(max_examples=200)
def test_results_are_filtered_and_ordered(
    bullets: list[IndexedBullet], text: str, top_k: int, sections: list[str] | None, min_confidence: float, alpha: float
) -> None:  # S-09, S-10, S-33, S-34, S-35, S-39
    query = SearchQuery(text, top_k, sections, min_confidence)
    results = HybridSearch(LengthModel(), alpha).search(query, bullets)
    admitted = [b for b in bullets if (not sections or b.section in sections) and b.confidence_score >= min_confidence]
    assert min(top_k, len(admitted)) == len(results)
    assert all(result.bullet in admitted for result in results)
    scores = [result.combined_score for result in results]
    assert sorted(scores, reverse=True) == scores
    assert all(math.isfinite(value) for r in results for value in (r.raw_cosine, r.raw_bm25, r.combined_score))
    assert results == HybridSearch(LengthModel(), alpha).search(query, bullets)


# Feature: curator-agent, foundation Property 1: SearchQuery, SearchResult: fields read back equal
@given(st.text(), st.integers(1), st.none() | st.lists(st.text()), st.floats(allow_nan=False), unit_floats)
@settings(max_examples=100)
def test_fields_of_a_result_read_back_equal(
    text: str, top_k: int, sections: list[str] | None, confidence: float, score: float
) -> None:  # S-03, S-05
    query = SearchQuery(text, top_k, sections, confidence)
    read = (query.query_text, query.top_k, query.section_filter, query.min_confidence)
    assert (text, top_k, sections, confidence) == read
    found = bullet("b", text)
    result = SearchResult(found, score, 1 - score, 0.5)
    read_back = (result.bullet, result.vector_score, result.bm25_score, result.combined_score)
    assert (found, score, 1 - score, 0.5) == read_back
    assert (result.raw_cosine, result.raw_bm25) == (0.0, 0.0)  # S-04


def test_unset_parameters_have_defaults() -> None:  # S-01
    query = SearchQuery("text")
    assert (query.top_k, query.section_filter, query.min_confidence) == (10, None, 0.3)


@pytest.mark.parametrize("top_k", [0, -1])
def test_top_k_below_one_is_refused(top_k: int) -> None:  # S-02, S-40
    with pytest.raises(ValueError, match=r"^top_k must be >= 1$") as caught:
        SearchQuery("text", top_k=top_k)
    assert caught.type is TopKTooSmall


def test_a_min_confidence_of_nan_is_refused() -> None:  # S-02
    with pytest.raises(MinConfidenceNotANumber, match=r"^min_confidence must be a number$"):
        SearchQuery("text", min_confidence=math.nan)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, math.inf])
def test_an_alpha_out_of_range_is_refused(alpha: float) -> None:  # S-07
    with pytest.raises(AlphaOutOfRange, match=r"^alpha must be between 0 and 1$"):
        HybridSearch(LengthModel(), alpha)


def test_without_candidates_nothing_is_embedded() -> None:  # S-08, S-12
    model = Vectors({}, [1.0])
    search = HybridSearch(model)
    assert search.search(SearchQuery("x"), []) == []
    assert search.search(SearchQuery("x"), [bullet("a", "x", harmful=1)]) == []
    assert model.calls == []


def test_query_and_documents_take_one_embedding_call_each() -> None:  # S-06, S-14
    model = Vectors({"x": [1.0], "y": [2.0]}, [1.0])
    HybridSearch(EmbeddingClient(model)).search(
        SearchQuery("q"), [bullet("a", "x", keywords=("k",)), bullet("b", "y"), bullet("c", "z", harmful=1)]
    )
    assert model.calls == [["q"], ["x", "y"]]


def test_the_bounds_of_confidence_are_inclusive() -> None:  # S-10, S-11
    found = HybridSearch(LengthModel()).search(
        SearchQuery("q"),
        [bullet("new", "x"), bullet("bad", "x", harmful=1), bullet("passes", "x", helpful=1, harmful=2)],
    )
    assert [result.bullet.id for result in found] == ["new", "passes"]
    exactly = HybridSearch(LengthModel()).search(SearchQuery("q", min_confidence=0.5), [bullet("new", "x")])
    assert [result.bullet.id for result in exactly] == ["new"]


def test_one_candidate_scores_one_half_twice() -> None:  # S-30
    (result,) = HybridSearch(LengthModel(), 0.7).search(SearchQuery("x"), [bullet("a", "x")])
    assert (result.vector_score, result.bm25_score, result.combined_score) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("engine", [*ENGINES, "numpy"])
def test_a_small_difference_of_bm25_is_no_equality(engine: str) -> None:  # S-30
    index: Any = {**ENGINES, "numpy": partial(new_index, 1, NUMPY_LOOPS)}[engine](OKAPI)
    texts = ["a" + " z" * 3000, "a" + " z" * 3001, "b", "c", "d"]
    entries = [Entry(str(i), text, i, section="kept" if i < 2 else "") for i, text in enumerate(texts)]
    view = index.apply(entries, np.ones((5, 1)))
    two_candidates = CandidateFilter(frozenset({"kept"}))
    found = view.search(["a"], np.ones(1, np.float32), two_candidates, Fusion(0.0), 2).results
    assert 1e-12 < found[0].raw_bm25 - found[1].raw_bm25 < 1e-3
    assert [result.bm25_score for result in found] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("query", "documents"),
    [
        ([1.0, 0.0], [[1.0, 0.0]]),
        ([1.0, 0.0], [[1.0, 0.0], [1.0]]),
        ([1.0], [[1.0, 0.0], [1.0, 0.0]]),
        ([1.0, math.nan], [[1.0, 0.0], [1.0, 0.0]]),
        ([1.0, 0.0], [[1.0, 0.0], [math.inf, 0.0]]),
        ([], [[], []]),
    ],
    ids=["count", "unequal", "query dimension", "nan", "infinite", "empty"],
)
def test_a_wrong_embedding_reply_is_an_error(
    query: list[float], documents: list[list[float]], caplog: pytest.LogCaptureFixture
) -> None:  # S-16
    class Model:
        def embed_query(self, text: str) -> list[float]:
            return query

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return documents

    with caplog.at_level(logging.WARNING), pytest.raises(EmbeddingFailed, match=r"^Embedding failed: "):
        HybridSearch(Model()).search(SearchQuery("q"), [bullet("a", "x"), bullet("b", "y")])
    assert len(caplog.records) == 1


def test_a_failing_model_is_logged_and_raised(caplog: pytest.LogCaptureFixture) -> None:  # S-16, S-37, S-43
    class BrokenModel(LengthModel):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise ConnectionError("no route")

    with caplog.at_level(logging.WARNING), pytest.raises(EmbeddingFailed, match=r"^Embedding failed: no route$"):
        HybridSearch(BrokenModel()).search(SearchQuery("q"), [bullet("a", "x")])
    assert len(caplog.records) == 1


finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=3, max_size=3), st.lists(st.lists(finite, min_size=3, max_size=3), min_size=1))
@settings(max_examples=200)
def test_cosine_is_the_plain_formula(query: list[float], documents: list[list[float]]) -> None:  # S-15
    def cosine(a: list[float], b: list[float]) -> float:
        norms = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
        return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (norms or 1)

    tiny = [v for v in (query, *documents) if 0 < max(map(abs, v)) < 1e-100]
    assume(not tiny)
    expected = [cosine(query, document) for document in documents]
    model = Vectors({str(number): vector for number, vector in enumerate(documents)}, query)
    bullets = [bullet(str(number), str(number)) for number in range(len(documents))]
    found = HybridSearch(model).search(SearchQuery("q", top_k=len(documents)), bullets)
    by_number = sorted(found, key=lambda result: int(result.bullet.id))
    assert expected == pytest.approx([result.raw_cosine for result in by_number], abs=1e-6)


def test_reciprocal_ranks_share_the_best_rank_of_a_tie() -> None:
    ranks = score_reciprocal_ranks(np.array([0.2, 0.9, 0.2, 0.1]))
    assert pytest.approx(ranks) == [1 / 62, 1 / 61, 1 / 62, 1 / 64]
