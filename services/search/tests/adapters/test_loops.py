"""The compiled loops compute what their NumPy twins do."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.search.adapters.loops import LoopsLoader, compiled, load_loops
from services.search.domain import fusion, vectors
from services.search.domain.fusion import Fusion
from services.search.domain.loops import NUMPY_LOOPS, VectorRows, Words, score_words, score_words_of
from services.search.domain.postings import Postings
from services.search.domain.vectors import encode, unit
from services.search.domain.view import LoopsInUse
from services.search.tests.engines import COMPILED, unit32

TERMS = 6


@st.composite
def rows(draw: st.DrawFn) -> tuple[VectorRows, Words, np.ndarray, np.ndarray | None]:
    """Vectors, the lists of a query's words, a query vector and a mask."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, width = draw(st.integers(1, 120)), draw(st.integers(1, 140))
    units = unit(rng.integers(-2, 3, (count, width)).astype(np.float64)).astype(np.float32)
    postings = Postings()
    texts = [[f"t{n}" for n in rng.integers(0, TERMS, rng.integers(0, 9))] for _ in range(count)]
    postings.append(0, texts)
    lists = postings.view()
    weights = rng.random(len(lists.regions)) * draw(st.sampled_from([1.0, 9.0]))
    lengths = np.array([len(text) for text in texts], np.int32)
    words = Words(lists.rows, lists.counts, lists.regions, weights, lengths, 0.4, 0.1)
    mask = rng.random(count) < 0.7 if draw(st.booleans()) else None
    query = unit32(rng.normal(size=width))
    return VectorRows(units, *encode(units), rng.permutation(count)), words, query, mask


@given(rows(), st.integers(1, 20), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from(["minmax", "rrf"]))
@settings(max_examples=300, deadline=None)
def test_rank_rows(given: Any, count: int, alpha: float, method: str) -> None:  # S-19 to S-34
    vector_rows, words, query, mask = given
    if mask is not None and not mask.any():
        return
    of_numpy, of_numba = (
        loops.rank_rows(vector_rows, words, query, mask, Fusion(alpha, method), count)
        for loops in (NUMPY_LOOPS, COMPILED)
    )
    assert of_numba.scores == pytest.approx(of_numpy.scores, abs=1e-5) or _are_tied(of_numpy.scores)
    assert of_numba.scores[2] == pytest.approx(of_numpy.scores[2], abs=1e-5)
    assert mask is None or mask[of_numba.rows].all()
    assert len(set(of_numba.rows.tolist())) == len(of_numpy.rows)


def _are_tied(scores: np.ndarray) -> bool:
    """Return whether rounding may have put others in these places."""
    return bool((np.abs(np.diff(scores[2])) < 1e-5).any())


@given(rows(), st.integers(1, 20))
@settings(max_examples=300, deadline=None)
def test_best_by_words(given: Any, count: int) -> None:
    _, words, _, mask = given
    scores = score_words(words)
    of_numpy, of_numba = (loops.best_by_words(words, mask, count) for loops in (NUMPY_LOOPS, COMPILED))
    assert sorted(scores[of_numba]) == pytest.approx(sorted(scores[of_numpy]), abs=1e-9)
    assert len(set(of_numba.tolist())) == len(of_numba)
    assert mask is None or mask[of_numba].all()


@given(rows())
@settings(max_examples=100, deadline=None)
def test_count_admitted(given: Any) -> None:
    _, words, _, mask = given
    if mask is not None:
        of_numpy, of_numba = (
            loops.count_admitted(words.rows, words.regions, mask) for loops in (NUMPY_LOOPS, COMPILED)
        )
        assert of_numba.tolist() == of_numpy.tolist()


@given(rows(), st.lists(st.integers(0, 119), max_size=9))
@settings(max_examples=100, deadline=None)
def test_scores_of_some_rows_are_those_of_all(given: Any, some: list[int]) -> None:
    _, words, _, _ = given
    chosen = np.array([row for row in some if row < len(words.lengths)], np.int64)
    held, parts = score_words_of(words, chosen)
    assert parts.sum(axis=0) == pytest.approx(score_words(words)[chosen], abs=1e-9)
    assert (parts[~held] == 0.0).all()


def test_a_negative_weight_is_counted() -> None:  # S-22
    postings = Postings()
    postings.append(0, [["a"], ["a", "b"], ["b"]])
    lists = postings.view()
    lengths = np.array([1, 2, 1], np.int32)
    words = Words(lists.rows, lists.counts, lists.regions, np.array([2.0, -1.0]), lengths, 0.4, 0.1)
    assert COMPILED.best_by_words(words, None, 1).tolist() == [0]


def test_arrays_that_are_read_only_need_no_other_loops() -> None:
    units = np.eye(8, dtype=np.float32)
    postings = Postings()
    postings.append(0, [["a"]] * 8)
    arrays = (units, *encode(units), np.arange(8), *postings.view()[1:], np.ones(1), np.ones(8, np.int32))
    for array in arrays:
        array.flags.writeable = False
    ranked = COMPILED.rank_rows(VectorRows(*arrays[:4]), Words(*arrays[4:], 0.4, 0.1), units[3], None, Fusion(1.0), 1)
    assert ranked.rows.tolist() == [3]
    assert len(compiled.rank_rows.signatures) == 1


def test_codes_are_off_by_at_most_their_bound() -> None:
    rng = np.random.default_rng(2)
    given = np.concatenate([rng.normal(size=(300, 48)), np.eye(48), np.zeros((2, 48)), rng.standard_cauchy((50, 48))])
    units = unit(given).astype(np.float32)
    codes, bounds = encode(units)
    held = codes.astype(np.float64) * bounds[:, :1]
    assert (np.linalg.norm(units - held, axis=1) <= bounds[:, 1] + 1e-9).all()


def test_numbers_that_are_compiled_in_are_those_of_the_domain() -> None:
    assert (compiled.EQUAL_WITHIN, compiled.LARGEST_CODE) == (fusion.EQUAL_WITHIN, vectors.LARGEST_CODE)


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
