"""Inverted lists that grow while others read them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from services.search.domain.postings import Postings, PostingsView

texts = st.lists(st.lists(st.sampled_from("abcde"), max_size=6), max_size=6)


def lists(view: PostingsView) -> dict[str, list[int]]:
    return {term: view.find_rows(term).tolist() for term in "abcde" if len(view.find_rows(term))}


@given(st.lists(texts, max_size=6), st.integers(0, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_a_view_is_immutable_and_an_export_has_live_rows(batches: list[list[list[str]]], at: int, seed: int) -> None:
    postings, written, seen = Postings(), list[list[str]](), []
    for number, batch in enumerate(batches):
        postings.append(len(written), batch)
        written += batch
        if number == at:
            view = postings.create_view()
            seen.append((view, lists(view)))
    for view, before in seen:
        assert lists(view) == before
    expected = {term: [row for row, text in enumerate(written) if term in text] for term in "abcde"}
    assert lists(postings.create_view()) == {term: rows for term, rows in expected.items() if rows}

    alive = np.random.default_rng(seed).random(len(written)) < 0.5
    number_of = (np.cumsum(alive) - 1).tolist()
    for mask in (None, alive):
        restored = Postings.restore(*postings.export(mask, "w"), "w")
        retained = {
            term: [row if mask is None else number_of[row] for row in rows if mask is None or mask[row]]
            for term, rows in expected.items()
        }
        assert lists(restored.create_view()) == {term: rows for term, rows in retained.items() if rows}
        restored.append(len(written), [["a", "a"]])
        assert restored.create_view().find_rows("a")[-1] == len(written)


def test_rows_are_counted_among_those_that_are_admitted() -> None:
    postings = Postings()
    postings.append(0, [["a", "a", "b"], ["a"], ["c"]])
    postings.append(3, [["a"]])
    view = postings.create_view()
    assert view.count_rows(None).tolist() == [3, 1, 1]
    assert view.count_rows(np.array([True, False, False, True])).tolist() == [2, 1, 0]
