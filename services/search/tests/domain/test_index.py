"""The built-in engine and the reference engine give the same answers after any changes."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from hansei.playbook.v1 import playbook_pb2
from libs.embedding.errors import EmbeddingFailed
from services.search.adapters.peers import decode_bullet
from services.search.adapters.reference import ReferenceIndex
from services.search.domain.bm25 import LUCENE, OKAPI, Variant
from services.search.domain.bullet import IndexedBullet
from services.search.domain.entry import Entry, create_bullet_entry
from services.search.domain.errors import InvalidEntry
from services.search.domain.fusion import Fusion
from services.search.domain.index import HybridIndex
from services.search.domain.loops import NUMPY_LOOPS, Loops
from services.search.domain.query import CandidateFilter
from services.search.domain.tokenizers import tokenize_whitespace
from services.search.domain.view import NO_LIMIT, IndexView
from services.search.tests.engines import COMPILED, LOOPS, new_index, unit32
from tests.support.campaigns import campaign_size

DIMENSION = 5
WORDS = ["alpha", "beta", "gamma", "delta", "the", "東京", "eta"]
IDS = [f"b{number}" for number in range(10)]

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
# Few distinct values and whole vectors in common: ties, zero vectors and equal scores are the rule, not the exception.
vectors = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=DIMENSION, max_size=DIMENSION)


@st.composite
def entries(draw: st.DrawFn, entry_id: str) -> Entry[str]:
    text = draw(texts)
    return Entry(
        id=entry_id,
        text=text,
        item=f"{entry_id}: {text}",
        keywords=tuple(draw(st.lists(texts, max_size=2))),
        section=draw(st.sampled_from(["rules", "facts"])),
        confidence=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        attributes=draw(st.sampled_from([(), (("lang", "en"),), (("lang", "ja"), ("part", "1"))])),
        smoothed_confidence=draw(st.sampled_from([0.25, 0.5])),
    )


class EnginesAgree(RuleBasedStateMachine):
    """Adds, updates, deletes and reorders entries; every query gets the answer of the reference engine."""

    variant = OKAPI

    def __init__(self) -> None:
        super().__init__()
        self.reference: ReferenceIndex[str] = ReferenceIndex(DIMENSION, tokenize_whitespace, self.variant)
        self.indexes: list[HybridIndex[str]] = [
            new_index(DIMENSION, NUMPY_LOOPS, self.variant),
            new_index(DIMENSION, COMPILED, self.variant),
            # They preselect from a pool that is large enough for all rows: their results must be the same.
            new_index(DIMENSION, NUMPY_LOOPS, self.variant, exact_limit=0),
            new_index(DIMENSION, COMPILED, self.variant, exact_limit=0),
        ]

    def apply(self, *change: Any) -> None:
        engines: list[Any] = [self.reference, *self.indexes]
        for engine in engines:
            engine.apply(*change)

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(IDS), unique=True, max_size=3))
        put = [data.draw(entries(entry_id)) for entry_id in data.draw(st.lists(st.sampled_from(IDS), max_size=5))]
        given_vectors = [data.draw(vectors) for _ in put]
        self.apply(put, np.array(given_vectors).reshape(-1, DIMENSION), gone)

    @precondition(lambda self: len(self.reference) > 0)
    @rule(data=st.data())
    def reorder(self, data: st.DataObject) -> None:
        self.apply((), None, (), 0, data.draw(st.permutations(IDS)))

    @rule()
    def compact(self) -> None:
        for index in self.indexes:
            index._compact()
        self.apply()

    @rule()
    def build_neighbours(self) -> None:
        for index in self.indexes:
            index.build_neighbours()

    @rule(
        words=texts,
        vector=vectors,
        sections=st.sampled_from([[], ["rules"], ["facts", "nope"]]),
        attributes=st.sampled_from([(), (("lang", "en"),), (("lang", "ja"), ("part", "1")), (("part", "2"),)]),
        min_confidence=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        weight=st.sampled_from([(0.0, 0.0), (0.3, 0.0), (0.5, 0.5), (1.0, 0.0)]),
        method=st.sampled_from(["minmax", "rrf"]),
        top_k=st.integers(1, 12),
        smoothed=st.booleans(),
    )
    def search(
        self,
        words: str,
        vector: list[float],
        sections: list[str],
        attributes: tuple[tuple[str, str], ...],
        min_confidence: float,
        weight: tuple[float, float],
        method: str,
        top_k: int,
        smoothed: bool,
    ) -> None:
        admitted = CandidateFilter(frozenset(sections), min_confidence, attributes, smoothed)
        query = (words.split(), unit32(np.array(vector)), admitted, Fusion(weight[0], method, weight[1]), top_k, True)
        expected = self.reference.view.search(*query)
        of_item = {result.item: result for result in expected.results}
        for index in self.indexes:
            ranking = index.view.search(*query)
            assert ranking.candidates == expected.candidates
            assert ranking.alpha == pytest.approx(expected.alpha, abs=1e-9)
            combined = [result.combined_score for result in ranking.results]
            assert combined == pytest.approx([result.combined_score for result in expected.results], abs=1e-6)
            assert _groups(ranking.results) == _groups(expected.results)
            for result in ranking.results:
                if (same := of_item.get(result.item)) is not None:
                    assert result[1:6] == pytest.approx(same[1:6], abs=1e-6)
                    assert [part.term for part in result.terms] == [part.term for part in same.terms]
                    parts = [part.score for part in same.terms]
                    assert [part.score for part in result.terms] == pytest.approx(parts, abs=1e-6)


class EnginesAgreeOnLucene(EnginesAgree):
    variant = LUCENE


def _groups(results: Sequence[Any]) -> list[set[str]]:
    """Return the items in order, those together whose scores differ by no more than float32 rounding."""
    groups: list[set[str]] = []
    last: float | None = None
    for result in results:
        if last is None or last - result.combined_score > 1e-6:
            groups.append(set())
        groups[-1].add(result.item)
        last = result.combined_score
    # The last group may be cut off by top_k anywhere within a tie.
    return groups[:-1]


# S-08 to S-35, all fusions, filters, deletes, updates
TestEnginesAgree = EnginesAgree.TestCase
TestEnginesAgree.settings = settings(max_examples=campaign_size(100, 30), stateful_step_count=14, deadline=None)
TestEnginesAgreeOnLucene = EnginesAgreeOnLucene.TestCase
TestEnginesAgreeOnLucene.settings = settings(max_examples=campaign_size(100, 15), stateful_step_count=14, deadline=None)


def bullet(bullet_id: str, text: str, **fields: object) -> IndexedBullet:
    return IndexedBullet(id=bullet_id, section="", content=text, searchable_text=text, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
def test_ties_keep_playbook_order_also_after_updates(loops: Loops) -> None:  # S-33
    index = new_index(2, loops)
    same = [create_bullet_entry(bullet(f"b{i}", "same text")) for i in range(40)]
    index.apply(same, np.tile([3.0, 4.0], (40, 1)))
    index.apply([create_bullet_entry(bullet("b7", "same text", helpful=1))], np.array([[3.0, 4.0]]))
    ranking = index.view.search(["same"], np.array([1, 0], np.float32), CandidateFilter(), Fusion(0.5), 9)
    assert [result.item.id for result in ranking.results] == [f"b{i}" for i in range(9)]
    assert {result.combined_score for result in ranking.results} == {0.5}  # S-41


@pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
def test_a_view_never_changes(loops: Loops) -> None:
    index = new_index(2, loops)
    index.apply(
        [create_bullet_entry(bullet(f"b{i}", f"word{i} shared")) for i in range(30)], np.ones((30, 2)), revision=1
    )
    view = index.view
    before = _answer(view)
    for i in range(30):
        index.apply([create_bullet_entry(bullet(f"b{i}", "shared shared other"))], -np.ones((1, 2)))
        index.apply([create_bullet_entry(bullet(f"c{i}", "word3 word4"))], np.ones((1, 2)), deleted=[f"b{29 - i}"])
    index._compact()
    index.apply(revision=2)
    view._candidates.clear()
    assert before == _answer(view)
    assert (view.revision, index.view.revision) == (1, 2)


def _answer(view: IndexView[IndexedBullet]) -> list[tuple[str, float, float]]:
    ranking = view.search(["word3", "shared"], np.array([0.6, 0.8], np.float32), CandidateFilter(), Fusion(0.5), 50)
    return [(result.item.id, result.combined_score, result.raw_bm25) for result in ranking.results]


def test_deleted_rows_are_compacted() -> None:
    index = new_index(2)
    for i in range(3000):
        index.apply([create_bullet_entry(bullet("b", f"text {i}"))], np.ones((1, 2)))
    assert index.view.rows < 1100
    assert len(index.view.words.ids) < 2100
    ranking = index.view.search(["2999"], np.ones(2, np.float32), CandidateFilter(), Fusion(0.5), 5)
    assert [result.item.content for result in ranking.results] == ["text 2999"]


@pytest.mark.parametrize(
    "vectors",
    [np.ones((1, 3)), np.ones((2, 2)), np.array([[1.0, np.nan]]), np.array([[np.inf, 1.0]]), None],
    ids=["dimension", "count", "nan", "infinite", "none"],
)
def test_wrong_vectors_change_nothing(vectors: np.ndarray | None) -> None:  # S-16
    index = new_index(2)
    index.apply([create_bullet_entry(bullet("a", "text"))], np.ones((1, 2)))
    before = index.view
    with pytest.raises(EmbeddingFailed):
        index.apply([create_bullet_entry(bullet("b", "text"))], vectors, deleted=["a"])
    assert index.view is before
    assert ("a" in index, len(index)) == (True, 1)


@pytest.mark.parametrize(
    ("entry", "field"),
    [(Entry("", "text", 1), "id"), (Entry("b", "text", 1, confidence=float("nan")), "confidence")],
    ids=["id", "confidence"],
)
def test_an_invalid_entry_is_not_indexed(entry: Entry[int], field: str) -> None:
    index = new_index(2)
    index.apply([Entry("a", "text", 0)], np.ones((1, 2)))
    before = index.view
    with pytest.raises(InvalidEntry) as refused:
        index.apply([Entry("c", "text", 2), entry], np.ones((2, 2)), deleted=["a"])
    assert [violation.field for violation in refused.value.violations] == [field]
    assert index.view is before
    assert ("a" in index, len(index)) == (True, 1)


@given(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3))
@settings(max_examples=100)
def test_vectors_of_any_length_give_finite_scores(vector: list[float]) -> None:  # S-39
    index = new_index(3)
    index.apply(
        [create_bullet_entry(bullet("a", "x")), create_bullet_entry(bullet("b", "y"))],
        np.array([vector, [1.0, 2.0, 3.0]]),
    )
    ranking = index.view.search(["x"], np.array([0, 1, 0], np.float32), CandidateFilter(), Fusion(0.5), 2)
    assert all(np.isfinite([r.combined_score, r.raw_cosine, r.raw_bm25]).all() for r in ranking.results)


def test_near_equal_vectors_are_compared_in_double_precision() -> None:  # S-30
    index = new_index(2)
    vectors = np.array([[1.0, 1e-4], [1.0, 2e-4], [1.0, 0.0]])
    index.apply([create_bullet_entry(bullet(f"b{i}", "x")) for i in range(3)], vectors)
    ranking = index.view.search([], np.array([1, 0], np.float32), CandidateFilter(), Fusion(1.0), 3)
    assert {0.0, 1.0} <= {result.combined_score for result in ranking.results} or all(
        result.combined_score == 0.5 for result in ranking.results
    )


@pytest.mark.parametrize("exact_limit", [NO_LIMIT, 0], ids=["all", "pool"])
@pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
def test_rounding_is_not_stretched_into_a_difference(loops: Loops, exact_limit: int) -> None:  # S-41
    # The same five numbers in every order: equal products, which float32 sums of another order miss by a little.
    vectors = np.array(list(itertools.permutations([0.1, 0.2, 0.3, 0.4, 0.5])))
    index = new_index(5, loops, exact_limit=exact_limit)
    index.apply([create_bullet_entry(bullet(f"b{i}", "x")) for i in range(len(vectors))], vectors)
    assert index.build_neighbours() == (exact_limit == 0)
    ranking = index.view.search([], unit32(np.ones(5)), CandidateFilter(), Fusion(0.3), 10)
    assert [result.item.id for result in ranking.results] == [f"b{i}" for i in range(10)]
    assert {result.combined_score for result in ranking.results} == {0.5}


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4, 0.0])
@pytest.mark.parametrize("dimension", [1, 2, 33, 128, 384])
def test_bounds_rule_out_no_row_that_the_plain_scan_finds(dimension: int, spread: float) -> None:
    # Rows closer to each other than their codes can distinguish, duplicates, and a filter.
    rng = np.random.default_rng(dimension)
    vectors = rng.normal(size=dimension) + spread * rng.normal(size=(600, dimension))
    vectors[500:] = vectors[:100]
    lines = [" ".join(rng.choice(WORDS, 3)) for _ in range(600)]
    plain, bounded = new_index(dimension, NUMPY_LOOPS), new_index(dimension)
    for index in (plain, bounded):
        put = [create_bullet_entry(bullet(f"b{i}", line, helpful=i % 3, harmful=1)) for i, line in enumerate(lines)]
        index.apply(put, vectors, deleted=["b3"])
    for number in range(20):
        query = unit32(vectors[number] + spread * rng.normal(size=dimension))
        for admitted, alpha in itertools.product(
            (CandidateFilter(), CandidateFilter(min_confidence=0.5)), (0.0, 0.5, 1.0)
        ):
            expected = plain.view.search(lines[number].split(), query, admitted, Fusion(alpha), 20).results
            actual = bounded.view.search(lines[number].split(), query, admitted, Fusion(alpha), 20).results
            if alpha == 1.0:
                nearest = [r.raw_cosine for r in expected]
                assert [r.raw_cosine for r in actual] == pytest.approx(nearest, abs=2e-6)
            if spread == 1.0:
                # Below this, rounding of float32 shows in the scaled scores.
                scores = [r.combined_score for r in expected]
                assert [r.combined_score for r in actual] == pytest.approx(scores, abs=1e-5)
                if dimension > 2:
                    assert [r.item.id for r in actual] == [r.item.id for r in expected]


def made_up(count: int, variant: Variant, exact_limit: int) -> HybridIndex[int]:
    rng = np.random.default_rng(5)
    index = new_index(16, variant=variant, exact_limit=exact_limit)
    lines = [" ".join(rng.choice([f"w{i}" for i in range(200)], 8)) for _ in range(count)]
    index.apply(
        [Entry(str(i), line, i, section="ab"[i % 2]) for i, line in enumerate(lines)], rng.normal(size=(count, 16))
    )
    return index


@pytest.mark.parametrize("admitted", [CandidateFilter(), CandidateFilter(frozenset({"a"}))], ids=["all", "section"])
def test_preselection_finds_what_the_exact_ranking_does(admitted: CandidateFilter) -> None:
    exact, preselecting = made_up(3000, LUCENE, 10_000), made_up(3000, LUCENE, 100)
    assert preselecting.build_neighbours()
    assert not preselecting.build_neighbours()
    rng = np.random.default_rng(9)
    found = 0
    for number in range(20):
        query = [f"w{number}", f"w{number + 50}"], unit32(rng.normal(size=16)), admitted, Fusion(0.5), 10
        expected, ranking = exact.view.search(*query), preselecting.view.search(*query)
        assert (ranking.preselected, ranking.candidates) == (True, expected.candidates)
        found += len({r.item for r in ranking.results} & {r.item for r in expected.results})
    assert found >= 198


def test_the_neighbour_index_is_extended_and_unused_while_too_small() -> None:
    index = made_up(1000, LUCENE, 100)
    assert index.build_neighbours()
    query = unit32(np.ones(16))

    def best(count: int) -> tuple[list[int], bool]:
        index.apply([Entry(f"n{i}", "w1", 10_000 + i) for i in range(count)], np.ones((count, 16)))
        ranking = index.view.search(["w1"], query, CandidateFilter(), Fusion(0.5), 3)
        return [result.item for result in ranking.results], ranking.preselected

    assert best(30) == ([10_000, 10_001, 10_002], True)  # not yet in their index, and still found
    assert index.build_neighbours()
    assert index.view.neighbours is not None
    assert index.view.neighbours.covered_rows == index.view.rows
    assert best(30) == ([10_000, 10_001, 10_002], True)
    assert best(200)[1] is False  # so many rows are outside their index that every row is scored
    assert index.build_neighbours()
    assert best(0) == ([10_000, 10_001, 10_002], True)


def test_neighbours_survive_a_compaction() -> None:
    index = made_up(1000, LUCENE, 100)
    index.build_neighbours()
    index.apply(deleted=[str(i) for i in range(0, 1000, 3)])
    query = ["w1"], unit32(np.ones(16)), CandidateFilter(), Fusion(0.5), 20
    before = index.view.search(*query)
    index._compact()
    index.apply()
    after = index.view.search(*query)
    assert (before.preselected, after.preselected) == (True, True)
    assert [result.item for result in after.results] == [result.item for result in before.results]
    assert after.results.scores == pytest.approx(before.results.scores, abs=1e-6)
    assert all(result.item % 3 for result in after.results)


@pytest.mark.parametrize("words", [12, 60])
def test_the_estimate_of_memory_is_near_what_an_index_of_bullets_takes(words: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((400, 384)).astype(np.float32)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        index: HybridIndex[IndexedBullet] = HybridIndex(384, tokenize_whitespace)
        bullets = []
        for number in range(len(vectors)):
            text = " ".join(f"word{word}" for word in rng.integers(0, 5000, words))
            bullets.append(decode_bullet(playbook_pb2.Bullet(id=f"b-{number:05}", section="s", content=text)))
        index.apply([create_bullet_entry(bullet) for bullet in bullets], vectors)
        del bullets
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.75 * taken < index.allocated_bytes < 1.5 * taken
