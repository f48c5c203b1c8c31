"""How the vector score and the BM25 score of the candidates become one score (S-29 to S-31)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from services.search.domain.errors import AlphaOutOfRange

EQUAL_WITHIN = 1e-12
"""Raw scores whose range is at most this are equal (S-30)."""

RRF_CONSTANT = 60.0
"""k of reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009)."""

Floats = NDArray[np.float64]


def checked_alpha(alpha: float) -> float:
    """`alpha`, a number in 0..1. Raises `AlphaOutOfRange` (S-07)."""
    if math.isnan(alpha) or not 0.0 <= alpha <= 1.0:
        raise AlphaOutOfRange
    return alpha


def min_max(scores: Floats) -> Floats:
    """Scores scaled to 0..1; all 0.5 where they are equal (S-29, S-30)."""
    if not scores.size:
        return scores
    low, high = scores.min(), scores.max()
    if high - low <= EQUAL_WITHIN:
        return np.full(scores.shape, 0.5)
    scaled: Floats = (scores - low) / (high - low)
    return scaled


def weighted(vector: Floats, bm25: Floats, alpha: float) -> Floats:
    """alpha · vector + (1 − alpha) · bm25 (S-31)."""
    combined: Floats = alpha * vector + (1.0 - alpha) * bm25
    return combined


def reciprocal_ranks(scores: Floats) -> Floats:
    """1 / (60 + rank), rank 1 for the best; equal scores share the rank of their best."""
    ascending = np.sort(-scores)
    ranks = np.searchsorted(ascending, -scores, side="left") + 1
    fused: Floats = 1.0 / (RRF_CONSTANT + ranks.astype(np.float64))
    return fused
