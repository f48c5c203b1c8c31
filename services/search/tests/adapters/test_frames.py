"""What the compiled loops are told of a scope lies where they look for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from services.search.adapters.frames import MASKED, ORDER, PLACES, ROWS, TOTAL, VECTORS, WIDTH, framed
from services.search.domain.bm25 import LUCENE
from services.search.domain.coarse import coarse_of
from services.search.domain.kernels import Cut, Scope
from services.search.domain.postings import PostingsView


def scope(**columns: Any) -> Scope:
    vectors = np.eye(5, 3, dtype=np.float32)
    kept: dict[str, Any] = {
        "order": np.arange(5),
        "confidence": np.ones(5),
        "lengths": np.ones(5, np.int32),
        "died": np.zeros(5, np.int64),
        "vectors": vectors,
        "coarse": coarse_of(vectors),
    }
    postings = PostingsView({"a": 0}, np.zeros(7, np.int32), np.ones(7, np.int32), np.zeros(1, np.int64))
    return Scope(Cut(**(kept | columns)), postings, np.ones(5, np.bool_), 4, 2.5, LUCENE)


def test_it_holds_sizes_and_addresses() -> None:
    given = scope()
    frame = framed(given)
    assert frame is not None
    assert frame.words[[ROWS, WIDTH, PLACES, TOTAL, MASKED]].tolist() == [5, 3, 7, 4, 1]
    assert frame.words[[VECTORS, ORDER]].tolist() == [given.cut.vectors.ctypes.data, given.cut.order.ctypes.data]
    assert any(column is given.cut.vectors for column in frame.columns)  # as long as the frame is, they are


def test_entries_without_terms_have_none() -> None:
    assert framed(scope()._replace(average=0.0)) is None


@pytest.mark.parametrize(
    "column",
    [{"vectors": np.eye(5, 3)}, {"vectors": np.eye(5, 6, dtype=np.float32)[:, ::2]}, {"order": np.arange(5.0)}],
    ids=["of another kind", "with gaps", "of floats"],
)
def test_a_column_that_the_loops_would_misread_is_refused(column: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="without gaps is needed"):
        framed(scope(**column))
