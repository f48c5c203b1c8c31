"""An embedding model without weights: words and parts of words, hashed into a fixed number of dimensions.

Feature hashing with signs (Weinberger et al., ICML 2009). It compares spelling, not meaning: inflected and misspelt
words have similar vectors, synonyms do not. So its scores get less weight than those of a language model.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from libs.embedding.model import Float32s, Languages, SimilarityThresholds, normalize
from libs.embedding.terms import tokenize_mixed

DIMENSION = 1536
_PART = 3
_PART_WEIGHT = 0.4


class Hashing:
    """Signed hashes of terms and of their three-character parts; unit length, zero for text without terms."""

    model_id = f"hashing-v1-{DIMENSION}"
    trust = 0.4
    languages = Languages.SEVERAL
    thresholds = SimilarityThresholds(same_meaning=0.82, same_subject=0.41, query_match=0.15)
    dimension = DIMENSION
    inline_characters = 500

    def compute(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, 1536), float32."""
        return normalize(np.stack([_count_features(text) for text in texts]))


def _count_features(text: str) -> Float32s:
    """Return the weighted sums of the hashed features of a text, shape (1536,)."""
    features: list[str] = []
    weights: list[float] = []
    for term, count in Counter(tokenize_mixed(text)).items():
        weight, parts = 1.0 + math.log(count), _split_word(term)
        features += (term, *parts)
        weights += (weight, *[weight * _PART_WEIGHT] * len(parts))
    numbers = np.array([zlib.crc32(feature.encode("utf-8", "surrogatepass")) for feature in features], np.int64)
    # The lowest bit is the sign, so that colliding features cancel rather than add up.
    signed = np.where(numbers & 1, weights, np.negative(weights))
    return np.bincount((numbers >> 1) % DIMENSION, signed, DIMENSION).astype(np.float32)


def _split_word(term: str) -> list[str]:
    if not term.isascii() or len(term) <= _PART:
        return []
    bounded = f"^{term}$"
    return [bounded[i : i + _PART] for i in range(len(bounded) - _PART + 1)]
