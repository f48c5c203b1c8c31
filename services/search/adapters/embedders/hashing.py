"""The embedder that needs nothing: words and parts of words, hashed into a fixed number of dimensions.

Feature hashing with signs (Weinberger et al., ICML 2009). It knows no meaning, only spelling: inflected and misspelt
words come near each other, synonyms do not. So it gets less weight than a language model would.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from services.search.domain.embedding import Float32s
from services.search.domain.tokenizers import mixed

DIMENSION = 1536
_PART = 3
_PART_WEIGHT = 0.4


class Hashing:
    """Signed hashes of terms and of their three-character parts; unit length, zero for text without terms."""

    model = f"hashing-v1-{DIMENSION}"
    trust = 0.4
    only_latin = False
    dimension = DIMENSION

    def vectors(self, texts: Sequence[str]) -> Float32s:
        """Vectors of shape (len(texts), 1536), in order."""
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        for row, text in enumerate(texts):
            vector = vectors[row]
            for feature, count in Counter(mixed(text)).items():
                weight = 1.0 + np.log(count)
                _add(vector, feature, weight)
                for part in _parts(feature):
                    _add(vector, part, weight * _PART_WEIGHT)
            norm = float(np.linalg.norm(vector))
            if norm:
                vectors[row] = vector / norm
        return vectors


def _parts(term: str) -> list[str]:
    if not term.isascii() or len(term) <= _PART:
        return []
    framed = f"^{term}$"
    return [framed[i : i + _PART] for i in range(len(framed) - _PART + 1)]


def _add(vector: Float32s, feature: str, weight: float) -> None:
    number = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
    # The lowest bit is the sign, so that colliding features cancel rather than pile up.
    vector[(number >> 1) % DIMENSION] += weight if number & 1 else -weight
