"""Loops are compiled while queries are answered, and not beyond the end of their process."""

from __future__ import annotations

import numpy as np

from services.search.adapters.compiled import CompiledKernels

VECTORS = np.eye(3, dtype=np.float32)


def test_what_is_given_up_goes_on_as_numpy_does() -> None:
    kernels = CompiledKernels()
    kernels.give_up()
    kernels.warm()
    rows = np.array([2, 0], np.int64)
    assert kernels.inner_products_of(VECTORS, rows, VECTORS[2]).tolist() == [1.0, 0.0]
    assert not kernels.warmed_up


def test_loops_are_in_use_once_each_has_run() -> None:
    kernels = CompiledKernels.warmed()
    assert kernels.warmed_up
    assert kernels.inner_products_of(VECTORS, np.array([1], np.int64), VECTORS[1]).tolist() == [1.0]
