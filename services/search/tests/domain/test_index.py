"""The incremental index gives what ranking the same bullets from scratch gives."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from rank_bm25 import BM25Okapi

from services.search.domain.bullet import Bullet
from services.search.domain.entry import Entry, bullet_entry
from services.search.domain.errors import EmbeddingFailed, InvalidEntry
from services.search.domain.index import HybridIndex
from services.search.domain.kernels import Kernels, NumpyKernels
from services.search.domain.query import Filter, SearchQuery
from services.search.domain.ranking import candidates_of, cosines, rank
from services.search.domain.tokenizers import whitespace
from services.search.domain.view import NO_PRESELECTION, Fusion, IndexView, Preselection
from services.search.tests.domain.kernels import COMPILED, KERNELS, kernels_name, unit32
from tests.campaigns import sized

DIMENSION = 5
WORDS = ["alpha", "beta", "gamma", "delta", "the", "東京", "eta"]

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
# Few distinct values and whole vectors in common: ties, zero vectors and equal scores are the rule, not the exception.
vectors = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=DIMENSION, max_size=DIMENSION)
votes = st.integers(min_value=0, max_value=3)


@st.composite
def bullets(draw: st.DrawFn, bullet_id: str) -> Bullet:
    text = draw(texts)
    return Bullet(
        id=bullet_id,
        section=draw(st.sampled_from(["rules", "facts"])),
        content=text,
        searchable_text=text,
        keywords=tuple(draw(st.lists(texts, max_size=2))),
        helpful=draw(votes),
        harmful=draw(votes),
    )


EVERYTHING_IN_POOL = Preselection(above=0, pool=200, probes=200)


class IndexEqualsRanking(RuleBasedStateMachine):
    """Adds, updates, deletes and reorders bullets; after each step every query agrees with the definition."""

    def __init__(self) -> None:
        super().__init__()
        self.bullets: dict[str, Bullet] = {}
        self.vectors: dict[str, list[float]] = {}
        self.indexes = [HybridIndex[Bullet](DIMENSION, whitespace, kernels=kernels) for kernels in KERNELS]
        # One that preselects, from a pool that has room for everything: its answers must be the same.
        self.indexes.append(HybridIndex(DIMENSION, whitespace, kernels=NumpyKernels(), preselection=EVERYTHING_IN_POOL))
        self.indexes.append(HybridIndex(DIMENSION, whitespace, kernels=COMPILED, preselection=EVERYTHING_IN_POOL))
        for index in self.indexes:
            index.apply([], revision=1)

    @rule(data=st.data(), number=st.integers(0, 9))
    def put(self, data: st.DataObject, number: int) -> None:
        bullet = data.draw(bullets(f"b{number}"))
        vector = data.draw(vectors)
        self.bullets[bullet.id] = bullet
        self.vectors[bullet.id] = vector
        for index in self.indexes:
            index.apply([bullet_entry(bullet)], np.array([vector]))

    @rule(data=st.data())
    def put_many_and_delete_some(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from([f"b{i}" for i in range(10)]), unique=True, max_size=3))
        new = [data.draw(bullets(f"b{i}")) for i in data.draw(st.lists(st.integers(0, 9), unique=True, max_size=4))]
        given_vectors = [data.draw(vectors) for _ in new]
        for bullet_id in gone:
            self.bullets.pop(bullet_id, None)
        for bullet, vector in zip(new, given_vectors, strict=True):
            self.bullets[bullet.id] = bullet
            self.vectors[bullet.id] = vector
        for index in self.indexes:
            index.apply([bullet_entry(b) for b in new], np.array(given_vectors).reshape(-1, DIMENSION), deleted=gone)

    @precondition(lambda self: self.bullets)
    @rule(data=st.data())
    def reorder(self, data: st.DataObject) -> None:
        order = data.draw(st.permutations(list(self.bullets)))
        self.bullets = {bullet_id: self.bullets[bullet_id] for bullet_id in order}
        for index in self.indexes:
            index.apply(order=order)

    @rule()
    def compact(self) -> None:
        for index in self.indexes:
            index._compact()
            index.apply()

    @rule()
    def cluster(self) -> None:
        for index in self.indexes:
            index.cluster()

    @rule(
        words=texts,
        vector=vectors,
        sections=st.sampled_from([None, [], ["rules"], ["facts", "nope"]]),
        min_confidence=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        alpha=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        top_k=st.integers(1, 12),
    )
    def search(
        self,
        words: str,
        vector: list[float],
        sections: list[str] | None,
        min_confidence: float,
        alpha: float,
        top_k: int,
    ) -> None:
        query = SearchQuery(words, top_k, sections, min_confidence)
        # The index keeps unit vectors in float32; the definition is asked about the same numbers.
        unit_query = unit32(np.array(vector))
        candidates = candidates_of(list(self.bullets.values()), query.filter)
        held = np.array([unit32(np.array(self.vectors[b.id])) for b in candidates]).reshape(-1, DIMENSION)
        expected = rank(query, candidates, cosines_of(unit_query, held), alpha) if candidates else []
        for index in self.indexes:
            ranking = index.view.search(words.split(), unit_query, query.filter, Fusion(alpha), top_k)
            actual = ranking.results
            assert ranking.candidates == len(candidates)
            assert [r.combined_score for r in actual] == pytest.approx([r.combined_score for r in expected], abs=1e-6)
            assert _ids_by_score(expected) == _ids_by_score_scored(actual)
            by_id = {result.bullet.id: result for result in expected}
            for result in actual:
                if (reference := by_id.get(result.item.id)) is not None:
                    assert result.raw_bm25 == pytest.approx(reference.raw_bm25, abs=1e-6)
                    assert result.raw_cosine == pytest.approx(reference.raw_cosine, abs=1e-6)

    @invariant()
    def bm25_equals_rank_bm25(self) -> None:
        corpus = [
            [*b.searchable_text.split(), *(t for keyword in b.keywords for t in keyword.split())]
            for b in self.bullets.values()
        ]
        if not any(corpus):
            return
        words = [*WORDS, "beta", "nope"]
        expected = BM25Okapi(corpus).get_scores(words)
        for index in self.indexes:
            view = index.view
            scores = view.bm25(words, view.candidates(Filter()))
            rows = [index._row_of[bullet_id] for bullet_id in self.bullets]
            assert scores[rows] == pytest.approx(expected, abs=1e-6)


def cosines_of(query: np.ndarray, documents: np.ndarray) -> np.ndarray:
    return cosines(query.astype(np.float64), documents.astype(np.float64))


# Entries whose scores differ by no more than float32 rounding may stand in either order.
def _ids_by_score(results: list[Any]) -> list[set[str]]:
    return _grouped([(r.combined_score, r.bullet.id) for r in results])


def _ids_by_score_scored(results: Sequence[Any]) -> list[set[str]]:
    return _grouped([(r.combined_score, r.item.id) for r in results])


def _grouped(scored: list[tuple[float, str]]) -> list[set[str]]:
    groups: list[set[str]] = []
    last: float | None = None
    for score, bullet_id in scored:
        if last is None or last - score > 1e-6:
            groups.append(set())
        groups[-1].add(bullet_id)
        last = score
    # The last group may be cut off by top_k anywhere within a tie.
    return groups[:-1]


TestIndexEqualsRanking = IndexEqualsRanking.TestCase
TestIndexEqualsRanking.settings = settings(max_examples=sized(100, 40), stateful_step_count=12, deadline=None)


def bullet(bullet_id: str, text: str, **fields: object) -> Bullet:
    return Bullet(id=bullet_id, section="", content=text, searchable_text=text, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("kernels", KERNELS, ids=kernels_name)
def test_ties_keep_playbook_order_also_after_updates(kernels: Kernels) -> None:  # S-33
    index = HybridIndex[Bullet](2, whitespace, kernels=kernels)
    entries = [bullet_entry(bullet(f"b{i}", "same text")) for i in range(40)]
    index.apply(entries, np.tile([3.0, 4.0], (40, 1)))
    index.apply([bullet_entry(bullet("b7", "same text", helpful=1))], np.array([[3.0, 4.0]]))
    ranking = index.view.search(["same"], np.array([1, 0], np.float32), Filter(), Fusion(0.5), 9)
    assert [result.item.id for result in ranking.results] == [f"b{i}" for i in range(9)]
    assert {result.combined_score for result in ranking.results} == {0.5}  # S-41


@pytest.mark.parametrize("kernels", KERNELS, ids=kernels_name)
def test_a_view_never_changes(kernels: Kernels) -> None:
    index = HybridIndex[Bullet](2, whitespace, kernels=kernels)
    index.apply([bullet_entry(bullet(f"b{i}", f"word{i} shared")) for i in range(30)], np.ones((30, 2)), revision=1)
    view = index.view
    before = _answer(view)
    for i in range(30):
        index.apply([bullet_entry(bullet(f"b{i}", "shared shared other"))], -np.ones((1, 2)))
        index.apply([bullet_entry(bullet(f"c{i}", "word3 word4"))], np.ones((1, 2)), deleted=[f"b{29 - i}"])
    index._compact()
    index.apply(revision=2)
    view.remembered.clear()
    assert before == _answer(view)
    assert (view.revision, index.view.revision) == (1, 2)


def _answer(view: IndexView[Bullet]) -> list[tuple[str, float, float]]:
    ranking = view.search(["word3", "shared"], np.array([0.6, 0.8], np.float32), Filter(), Fusion(0.5), 50)
    return [(result.item.id, result.combined_score, result.raw_bm25) for result in ranking.results]


def test_dead_rows_are_given_back() -> None:
    index = HybridIndex[Bullet](2, whitespace)
    for i in range(3000):
        index.apply([bullet_entry(bullet("b", f"text {i}"))], np.ones((1, 2)))
    assert index.view.rows < 1100
    assert len(index.view.postings.ids) < 2100
    ranking = index.view.search(["2999"], np.ones(2, np.float32), Filter(), Fusion(0.5), 5)
    assert [result.item.content for result in ranking.results] == ["text 2999"]


@pytest.mark.parametrize(
    "vectors",
    [np.ones((1, 3)), np.ones((2, 2)), np.array([[1.0, np.nan]]), np.array([[np.inf, 1.0]]), None],
    ids=["dimension", "count", "nan", "infinite", "none"],
)
def test_wrong_vectors_change_nothing(vectors: np.ndarray | None) -> None:  # S-16
    index = HybridIndex[Bullet](2, whitespace)
    index.apply([bullet_entry(bullet("a", "text"))], np.ones((1, 2)))
    before = index.view
    with pytest.raises(EmbeddingFailed):
        index.apply([bullet_entry(bullet("b", "text"))], vectors, deleted=["a"])
    assert index.view is before
    assert index.ids() == ["a"]


@pytest.mark.parametrize(
    ("entry", "field"),
    [(Entry("", "text", 1), "id"), (Entry("b", "text", 1, confidence=float("nan")), "confidence")],
    ids=["id", "confidence"],
)
def test_an_entry_that_cannot_be_is_not_taken_up(entry: Entry[int], field: str) -> None:
    index: HybridIndex[int] = HybridIndex(2, whitespace)
    index.apply([Entry("a", "text", 0)], np.ones((1, 2)))
    before = index.view
    with pytest.raises(InvalidEntry) as refused:
        index.apply([Entry("c", "text", 2), entry], np.ones((2, 2)), deleted=["a"])
    assert [violation.field for violation in refused.value.violations] == [field]
    assert index.view is before
    assert index.ids() == ["a"]


@given(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3))
@settings(max_examples=100)
def test_vectors_of_any_length_give_finite_scores(vector: list[float]) -> None:  # S-39
    index = HybridIndex[Bullet](3, whitespace)
    index.apply([bullet_entry(bullet("a", "x")), bullet_entry(bullet("b", "y"))], np.array([vector, [1.0, 2.0, 3.0]]))
    ranking = index.view.search(["x"], np.array([0, 1, 0], np.float32), Filter(), Fusion(0.5), 2)
    assert all(np.isfinite([r.combined_score, r.raw_cosine, r.raw_bm25]).all() for r in ranking.results)


def test_near_equal_vectors_are_compared_in_double_precision() -> None:  # S-30
    index = HybridIndex[Bullet](2, whitespace, kernels=COMPILED)
    vectors = np.array([[1.0, 1e-4], [1.0, 2e-4], [1.0, 0.0]])
    index.apply([bullet_entry(bullet(f"b{i}", "x")) for i in range(3)], vectors)
    ranking = index.view.search([], np.array([1, 0], np.float32), Filter(), Fusion(1.0), 3)
    assert {0.0, 1.0} <= {result.combined_score for result in ranking.results} or all(
        result.combined_score == 0.5 for result in ranking.results
    )


@pytest.mark.parametrize("preselection", [NO_PRESELECTION, EVERYTHING_IN_POOL], ids=["all", "pool"])
@pytest.mark.parametrize("kernels", KERNELS, ids=kernels_name)
def test_rounding_is_not_stretched_into_a_difference(kernels: Kernels, preselection: Preselection) -> None:  # S-41
    # The same five numbers in every order: equal products, which float32 sums of another order miss by a little.
    vectors = np.array(list(itertools.permutations([0.1, 0.2, 0.3, 0.4, 0.5])))
    index = HybridIndex[Bullet](5, whitespace, kernels=kernels, preselection=preselection)
    index.apply([bullet_entry(bullet(f"b{i}", "x")) for i in range(len(vectors))], vectors)
    assert index.cluster() == (preselection is EVERYTHING_IN_POOL)
    ranking = index.view.search([], unit32(np.ones(5)), Filter(), Fusion(0.3), 10)
    assert [result.item.id for result in ranking.results] == [f"b{i}" for i in range(10)]
    assert {result.combined_score for result in ranking.results} == {0.5}


@pytest.mark.parametrize("kernels", [NumpyKernels(), COMPILED], ids=kernels_name)
def test_a_preselecting_index_finds_what_the_exact_one_finds(kernels: Kernels) -> None:
    rng = np.random.default_rng(5)
    words = np.array([f"w{i}" for i in range(400)])
    centres = rng.normal(size=(40, 32))
    held = centres[rng.integers(40, size=3000)] + 0.7 * rng.normal(size=(3000, 32))
    lines = [" ".join(rng.choice(words, 8)) for _ in range(3000)]
    bullets = [bullet(f"b{i}", line, helpful=i % 2, harmful=i % 3) for i, line in enumerate(lines)]
    preselection = Preselection(above=1000, pool=100, probes=24)
    exact = HybridIndex[Bullet](32, whitespace, kernels=kernels)
    index = HybridIndex[Bullet](32, whitespace, kernels=kernels, preselection=preselection)
    for each in (exact, index):
        each.apply([bullet_entry(b) for b in bullets[:2500]], held[:2500])
    assert index.cluster()
    assert not index.cluster()
    for each in (exact, index):
        each.apply([bullet_entry(b) for b in bullets[2500:]], held[2500:], deleted=[f"b{i}" for i in range(0, 900, 3)])
    found = total = 0
    for number in range(100):
        query = held[number * 30] + 0.5 * rng.normal(size=32)
        unit_query = (query / np.linalg.norm(query)).astype(np.float32)
        terms = lines[number * 30].split()[:4]
        admitted = Filter(min_confidence=0.4)
        expected = exact.view.search(terms, unit_query, admitted, Fusion(0.5), 10)
        actual = index.view.search(terms, unit_query, admitted, Fusion(0.5), 10)
        assert actual.preselected
        assert not expected.preselected
        assert actual.candidates == expected.candidates
        total += len(expected.results)
        found += len({r.item.id for r in expected.results} & {r.item.id for r in actual.results})
    assert found / total >= 0.98


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4, 0.0])
@pytest.mark.parametrize("dimension", [2, 33, 384])
def test_bounds_rule_out_no_row_that_the_plain_scan_finds(dimension: int, spread: float) -> None:
    # Rows closer to each other than their coarse forms can tell, duplicates, and a filter.
    rng = np.random.default_rng(dimension)
    vectors = rng.normal(size=dimension) + spread * rng.normal(size=(600, dimension))
    vectors[500:] = vectors[:100]
    lines = [" ".join(rng.choice(WORDS, 3)) for _ in range(600)]
    plain, bounded = (HybridIndex[Bullet](dimension, whitespace, kernels=k) for k in (NumpyKernels(), COMPILED))
    for index in (plain, bounded):
        entries = [bullet_entry(bullet(f"b{i}", line, helpful=i % 3, harmful=1)) for i, line in enumerate(lines)]
        index.apply(entries, vectors, deleted=["b3"])
    for number in range(40):
        query = unit32(vectors[number] + spread * rng.normal(size=dimension))
        for admitted, alpha in itertools.product((Filter(), Filter(min_confidence=0.5)), (0.0, 0.5, 1.0)):
            expected = plain.view.search(lines[number].split(), query, admitted, Fusion(alpha), 20).results
            actual = bounded.view.search(lines[number].split(), query, admitted, Fusion(alpha), 20).results
            if alpha == 1.0:
                nearest = [r.raw_cosine for r in expected]
                assert [r.raw_cosine for r in actual] == pytest.approx(nearest, abs=2e-6)
            if spread == 1.0:
                # Below, what float32 rounds away is seen in the scaled scores.
                scores = [r.combined_score for r in expected]
                assert [r.combined_score for r in actual] == pytest.approx(scores, abs=1e-5)
                if dimension > 2:
                    assert [r.item.id for r in actual] == [r.item.id for r in expected]
