"""Every kernel computes what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.search.domain.kernels import Kernels
from services.search.tests.domain.kernels import KERNELS, kernels_name


@pytest.mark.parametrize("kernels", KERNELS, ids=kernels_name)
@given(
    scores=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), max_size=12),
    admitted=st.lists(st.booleans(), min_size=12, max_size=12),
    count=st.integers(1, 14),
)
@settings(max_examples=100)
def test_highest_scores(kernels: Kernels, scores: list[float], admitted: list[bool], count: int) -> None:
    values, mask = np.array(scores, np.float64), np.array(admitted[: len(scores)], np.bool_)
    for used in (None, mask):
        allowed = values if used is None else values[used]
        rows = kernels.highest(values, used, count)
        assert sorted(values[rows].tolist()) == sorted(allowed.tolist(), reverse=True)[:count][::-1]
        assert len(set(rows.tolist())) == len(rows)
        assert used is None or used[rows].all()


@pytest.mark.parametrize("kernels", KERNELS, ids=kernels_name)
def test_products_of_some_rows_are_those_of_all(kernels: Kernels) -> None:
    rng = np.random.default_rng(3)
    for dimension in (1, 2, 5, 8, 384):
        vectors, query = rng.normal(size=(50, dimension)).astype(np.float32), rng.normal(size=dimension)
        rows = np.array([3, 49, 0, 3])
        everything = kernels.inner_products(vectors, query.astype(np.float32))
        some = kernels.inner_products_of(vectors, rows, query.astype(np.float32))
        assert some == pytest.approx(everything[rows], abs=1e-5)
        assert some[0] == some[3]
        assert everything == pytest.approx(vectors.astype(np.float64) @ query, abs=1e-4)
