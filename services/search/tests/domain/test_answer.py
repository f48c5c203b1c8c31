"""What compiled loops answer in one go is what the plain ones find step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from services.search.adapters.compiled import CompiledKernels
from services.search.domain.bm25 import LUCENE, OKAPI, Variant
from services.search.domain.entry import Entry
from services.search.domain.index import HybridIndex
from services.search.domain.kernels import Fused, NumpyKernels
from services.search.domain.query import Filter
from services.search.domain.tokenizers import whitespace
from services.search.domain.view import Fusion

ENTRIES, DIMENSION = 200, 24
FILTERS = {
    "all": Filter(),
    "a section": Filter(sections=frozenset({"a"})),
    "confident": Filter(min_confidence=0.6),
}


class Watched(CompiledKernels):
    """Notes whether it answered."""

    def __init__(self) -> None:
        super().__init__()
        self.warm()
        self.answered: list[bool] = []

    def answer(self, *args: Any) -> Fused | None:
        fused = super().answer(*args)
        self.answered.append(fused is not None)
        return fused


def _indexes(variant: Variant, dimension: int = DIMENSION) -> tuple[Watched, HybridIndex[int], HybridIndex[int]]:
    """The same entries with watched and with plain loops; every third is gone again, `often` is in most."""
    rng = np.random.default_rng(11)
    entries = [
        Entry(
            id=str(number),
            text=" ".join([*rng.choice([f"w{i}" for i in range(30)], 6), *(["often"] if number % 5 else [])]),
            item=number,
            section="ab"[number % 2],
            confidence=float(rng.random()),
        )
        for number in range(ENTRIES)
    ]
    vectors = rng.normal(size=(ENTRIES, dimension)).astype(np.float32)
    watched = Watched()
    made = []
    for kernels in (watched, NumpyKernels()):
        index: HybridIndex[int] = HybridIndex(dimension, whitespace, variant, kernels)
        index.apply(entries, vectors)
        index.apply(deleted=[str(number) for number in range(0, ENTRIES, 3)])
        made.append(index)
    return watched, made[0], made[1]


@pytest.mark.parametrize("admitted", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("variant", [OKAPI, LUCENE], ids=lambda variant: variant.name)
@pytest.mark.parametrize(
    "query", ["w1 w2", "w1 w2 w1 unknown", "often w3", "unknown", ""], ids=["two", "twice", "often", "unknown", "none"]
)
def test_it_is_the_same(query: str, variant: Variant, admitted: Filter) -> None:  # S-19 to S-34
    watched, quick, plain = _indexes(variant)
    vector = np.random.default_rng(3).normal(size=DIMENSION).astype(np.float32)
    vector /= np.linalg.norm(vector)
    found, expected = (
        index.view.search(query.split(), vector, admitted, Fusion(0.4), 10).results for index in (quick, plain)
    )
    assert [result.item for result in found] == [result.item for result in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[1:6] == pytest.approx(theirs[1:6], abs=1e-5)
    # Okapi's floor needs the mean over all terms, which only the steps know (S-22).
    assert watched.answered == [not (variant is OKAPI and "often" in query)]


@pytest.mark.parametrize("fusion", [Fusion(0.4, "rrf"), Fusion(0.4)], ids=["by rank", "many"])
def test_what_it_cannot_do_is_done_step_by_step(fusion: Fusion) -> None:
    watched, quick, plain = _indexes(LUCENE)
    vector = np.eye(DIMENSION, dtype=np.float32)[0]
    found, expected = (
        [result.item for result in index.view.search(["w1"], vector, Filter(), fusion, ENTRIES).results]
        for index in (quick, plain)
    )
    assert found == expected
    assert not any(watched.answered)


@pytest.mark.parametrize("dimension", [1, 127, 128, 300])
def test_vectors_of_any_length(dimension: int) -> None:
    watched, quick, plain = _indexes(LUCENE, dimension)
    for seed in range(5):
        vector = np.random.default_rng(seed).normal(size=dimension).astype(np.float32)
        vector /= np.linalg.norm(vector)
        found, expected = (
            list(index.view.search(["w1", "w2"], vector, Filter(), Fusion(0.9), 10).results) for index in (quick, plain)
        )
        assert [result[1:6] for result in found] == [pytest.approx(result[1:6], abs=1e-5) for result in expected]
    assert all(watched.answered)
