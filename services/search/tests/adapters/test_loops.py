"""The compiled loops compute the same as their NumPy twins."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.search.adapters.loops import LoopsLoader, load_loops, numba_loops
from services.search.domain import fusion, vectors
from services.search.domain.fusion import Fusion
from services.search.domain.loops import (
    NO_REFINEMENT,
    NUMPY_LOOPS,
    SENTENCE_BITS,
    Refinement,
    VectorRows,
    WeightedTerms,
    score_rows,
    score_words,
    sum_best_sentences,
)
from services.search.domain.postings import Postings
from services.search.domain.vectors import quantize, scale_to_unit
from services.search.domain.view import LoopsInUse
from services.search.tests.engines import COMPILED, unit32

TERMS = 6


@st.composite
def rows(draw: st.DrawFn) -> tuple[VectorRows, WeightedTerms, np.ndarray, np.ndarray | None]:
    """Vectors, the lists of a query's words, a query vector and a mask."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, width = draw(st.integers(1, 120)), draw(st.integers(1, 140))
    units = scale_to_unit(rng.integers(-2, 3, (count, width)).astype(np.float64)).astype(np.float32)
    postings = Postings()
    texts = [[f"t{n}" for n in rng.integers(0, TERMS, rng.integers(0, 9))] for _ in range(count)]
    postings.append(0, texts, [rng.integers(0, 40, len(text)).tolist() for text in texts])
    lists = postings.create_view()
    weights = rng.random(len(lists.regions)) * draw(st.sampled_from([1.0, 9.0]))
    lengths = np.array([len(text) for text in texts], np.int32)
    words = WeightedTerms(
        lists.rows, lists.counts, lists.regions, weights, lengths, 0.4, 0.1, draw(st.floats(0.0, 9.0)), lists.sentences
    )
    mask = rng.random(count) < 0.7 if draw(st.booleans()) else None
    query = unit32(rng.normal(size=width))
    return VectorRows(units, *quantize(units), rng.permutation(count)), words, query, mask


@given(
    rows(),
    st.integers(1, 20),
    st.sampled_from([(0.0, 0.0), (0.4, 0.0), (0.5, 0.5), (1.0, 0.0)]),
    st.sampled_from(["minmax", "rrf"]),
)
@settings(max_examples=300, deadline=None)
def test_compiled_rank_rows_equals_numpy(
    case: Any, count: int, weight: tuple[float, float], method: str
) -> None:  # S-19 to S-34
    vector_rows, words, query, mask = case
    if mask is not None and not mask.any():
        return
    numpy_ranking, numba_ranking = (
        loops.rank_rows(vector_rows, words, query, mask, Fusion(weight[0], method, weight[1]), count)
        for loops in (NUMPY_LOOPS, COMPILED)
    )
    assert numba_ranking.scores == pytest.approx(numpy_ranking.scores, abs=1e-5) or _are_tied(numpy_ranking.scores)
    assert numba_ranking.scores[2] == pytest.approx(numpy_ranking.scores[2], abs=1e-5)
    assert numba_ranking.alpha == pytest.approx(numpy_ranking.alpha, abs=1e-12)
    assert mask is None or mask[numba_ranking.rows].all()
    assert len(set(numba_ranking.rows.tolist())) == len(numpy_ranking.rows)


def _are_tied(scores: np.ndarray) -> bool:
    """Return whether rounding may have put others in these places."""
    return bool((np.abs(np.diff(scores[2])) < 1e-5).any())


@given(rows(), st.integers(1, 20))
@settings(max_examples=300, deadline=None)
def test_compiled_best_by_words_equals_numpy(case: Any, count: int) -> None:
    _, words, _, mask = case
    scores = score_words(words)
    numpy_ranking, numba_ranking = (loops.select_best_by_words(words, mask, count) for loops in (NUMPY_LOOPS, COMPILED))
    assert sorted(scores[numba_ranking]) == pytest.approx(sorted(scores[numpy_ranking]), abs=1e-9)
    assert len(set(numba_ranking.tolist())) == len(numba_ranking)
    assert mask is None or mask[numba_ranking].all()


@given(rows())
@settings(max_examples=100, deadline=None)
def test_count_admitted(case: Any) -> None:
    _, words, _, mask = case
    if mask is not None:
        numpy_ranking, numba_ranking = (
            loops.count_admitted(words.rows, words.regions, mask) for loops in (NUMPY_LOOPS, COMPILED)
        )
        assert numba_ranking.tolist() == numpy_ranking.tolist()


@given(rows(), st.lists(st.integers(0, 119), max_size=9))
@settings(max_examples=100, deadline=None)
def test_the_best_sentences_of_some_rows(case: Any, some: list[int]) -> None:
    _, words, _, _ = case
    chosen = np.array([row for row in some if row < len(words.lengths)], np.int64)
    sums = sum_best_sentences(words, chosen)
    assert (sums <= score_rows(words, chosen)[0].T @ words.weights + 1e-9).all()
    assert (sums[score_rows(words, chosen)[0].any(axis=0)] > 0.0).all()


@given(rows(), st.integers(1, 20), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0.1, 1.0]))
@settings(max_examples=200, deadline=None)
def test_best_sentences(case: Any, count: int, alpha: float, weight: float) -> None:
    vector_rows, words, query, mask = case
    if mask is not None and not mask.any():
        return
    refinement = Refinement(2 * count, weight)
    former = NUMPY_LOOPS.rank_rows(vector_rows, words, query, mask, Fusion(alpha), 2 * count)
    if _are_tied(former.scores):  # rounding may choose other rows for the comparison of sentences
        return
    numpy_ranking, numba_ranking = (
        loops.rank_rows(vector_rows, words, query, mask, Fusion(alpha), count, refinement)
        for loops in (NUMPY_LOOPS, COMPILED)
    )
    assert numba_ranking.scores == pytest.approx(numpy_ranking.scores, abs=1e-5) or _are_tied(numpy_ranking.scores)
    assert numba_ranking.scores[2] == pytest.approx(numpy_ranking.scores[2], abs=1e-5)
    assert len(set(numba_ranking.rows.tolist())) == len(numpy_ranking.rows) == min(count, len(former.rows))


@given(rows(), st.integers(1, 20), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0.0, 0.5]))
@settings(max_examples=200, deadline=None)
def test_a_pool_is_ranked_as_if_there_were_no_other_rows(case: Any, count: int, alpha: float, weight: float) -> None:
    vector_rows, words, query, mask = case
    pool = np.arange(len(vector_rows.order)) if mask is None else np.flatnonzero(mask)
    if not len(pool):
        return
    refinement = Refinement(2 * count, weight) if weight else NO_REFINEMENT
    numpy_ranking, numba_ranking = (
        loops.rank_pool(vector_rows, words, query, pool, Fusion(alpha), count, refinement)
        for loops in (NUMPY_LOOPS, COMPILED)
    )
    of_all = NUMPY_LOOPS.rank_rows(vector_rows, words, query, mask, Fusion(alpha), count, refinement)
    assert numpy_ranking.rows.tolist() == of_all.rows.tolist()
    if not _are_tied(NUMPY_LOOPS.rank_pool(vector_rows, words, query, pool, Fusion(alpha), 2 * count).scores):
        assert numba_ranking.scores == pytest.approx(numpy_ranking.scores, abs=1e-5) or _are_tied(numpy_ranking.scores)
        assert numba_ranking.scores[2] == pytest.approx(numpy_ranking.scores[2], abs=1e-5)
    assert set(numba_ranking.rows.tolist()) <= set(pool.tolist())
    assert len(set(numba_ranking.rows.tolist())) == len(numpy_ranking.rows)


@given(rows(), st.lists(st.integers(0, 119), max_size=9))
@settings(max_examples=100, deadline=None)
def test_scores_of_some_rows_are_those_of_all(case: Any, some: list[int]) -> None:
    _, words, _, _ = case
    chosen = np.array([row for row in some if row < len(words.lengths)], np.int64)
    matches, parts = score_rows(words, chosen)
    assert parts.sum(axis=0) == pytest.approx(score_words(words)[chosen], abs=1e-9)
    assert (parts[~matches] == 0.0).all()


def test_a_negative_weight_is_counted() -> None:  # S-22
    postings = Postings()
    postings.append(0, [["a"], ["a", "b"], ["b"]])
    lists = postings.create_view()
    lengths = np.array([1, 2, 1], np.int32)
    words = WeightedTerms(
        lists.rows, lists.counts, lists.regions, np.array([2.0, -1.0]), lengths, 0.4, 0.1, 1.0, lists.sentences
    )
    assert COMPILED.select_best_by_words(words, None, 1).tolist() == [0]


def test_arrays_that_are_read_only_need_no_other_loops() -> None:
    units = np.eye(8, dtype=np.float32)
    postings = Postings()
    postings.append(0, [["a"]] * 8)
    lists = postings.create_view()
    arrays = (units, *quantize(units), np.arange(8), *lists[1:4], np.ones(1), np.ones(8, np.int32))
    for array in arrays:
        array.flags.writeable = False
    ranked = COMPILED.rank_rows(
        VectorRows(*arrays[:4]),
        WeightedTerms(*arrays[4:], 0.4, 0.1, 1.0, lists.sentences),
        units[3],
        None,
        Fusion(1.0),
        1,
    )
    assert ranked.rows.tolist() == [3]
    assert len(numba_loops.rank_rows.signatures) == 1


def test_codes_are_off_by_at_most_their_bound() -> None:
    rng = np.random.default_rng(2)
    matrix = np.concatenate([rng.normal(size=(300, 48)), np.eye(48), np.zeros((2, 48)), rng.standard_cauchy((50, 48))])
    units = scale_to_unit(matrix).astype(np.float32)
    codes, bounds = quantize(units)
    decoded = codes.astype(np.float64) * bounds[:, :1]
    assert (np.linalg.norm(units - decoded, axis=1) <= bounds[:, 1] + 1e-9).all()


def test_numbers_that_are_compiled_in_are_those_of_the_domain() -> None:
    assert (numba_loops.EQUAL_WITHIN, numba_loops.LARGEST_CODE) == (fusion.EQUAL_WITHIN, vectors.LARGEST_CODE)
    assert (numba_loops.SENTENCE_BITS, numba_loops.ENOUGH) == (SENTENCE_BITS, fusion.ENOUGH)


def test_without_numba_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert load_loops() is NUMPY_LOOPS


def test_a_loader_that_is_stopped_leaves_numpy_in_use() -> None:
    in_use = LoopsInUse()
    loader = LoopsLoader(in_use)
    loader.stop()
    loader.load()
    assert in_use.loops is NUMPY_LOOPS


def test_loaded_loops_are_put_to_use() -> None:
    in_use = LoopsInUse()
    LoopsLoader(in_use).load()
    assert in_use.loops is not NUMPY_LOOPS


def test_without_a_working_compiler_numpy_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("cannot cache function 'count_admitted': no locator available")

    monkeypatch.setattr("services.search.adapters.loops.loader.load_loops", fail)
    in_use = LoopsInUse()
    LoopsLoader(in_use).load()
    assert in_use.loops is NUMPY_LOOPS
    assert "compiled loops cannot be loaded; using the NumPy loops" in caplog.text
