"""Vectors kept as unit vectors and in a coarse form."""

from __future__ import annotations

import numpy as np
import pytest

from services.search.domain.vectors import StoreVectors, Vectors, store_vectors
from services.search.tests.domain.kernels import COMPILED, unit32


def test_coarse_rows_are_off_by_at_most_their_error() -> None:
    rng = np.random.default_rng(2)
    vectors = np.concatenate([rng.normal(size=(300, 48)), np.eye(48), np.zeros((2, 48)), rng.standard_cauchy((50, 48))])
    for store in (store_vectors, COMPILED.store_vectors):
        stored = Vectors(48, store)
        assert stored.append(vectors.astype(np.float32))
        units, coarse = stored.first(len(vectors))
        held = coarse.codes.astype(np.float64) * coarse.scales[:, np.newaxis]
        assert (np.linalg.norm(units - held, axis=1) <= coarse.errors + 1e-9).all()
        for _ in range(50):
            query = unit32(rng.normal(size=48)).astype(np.float64)
            assert (np.abs(units @ query - held @ query) <= coarse.errors + 1e-9).all()


@pytest.mark.parametrize("store", [store_vectors, COMPILED.store_vectors])
def test_vectors_of_a_snapshot_take_no_vectors_and_then_some(store: StoreVectors) -> None:
    """A snapshot is mapped read only; the first change after a restart may well add nothing."""
    written = Vectors(3, store)
    assert written.append(np.eye(3, dtype=np.float32))
    units, coarse = written.first(3)
    for column in (units, *coarse):
        column.flags.writeable = False
    thawed = Vectors.of(units, coarse, store)
    assert thawed.append(np.empty((0, 3), np.float32))
    assert thawed.append(np.ones((1, 3), np.float32))
    assert len(thawed.first(4)[0]) == 4
