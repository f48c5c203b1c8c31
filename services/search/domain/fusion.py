"""Fuses the vector score and the BM25 score of the candidates into one score (S-29 to S-34)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.search.domain.errors import AlphaOutOfRange

EQUAL_WITHIN = 1e-12
"""Raw scores whose range is at most this are equal (S-30)."""

SINGLE_PRECISION_NOISE = 1e-6
"""Below this range the rounding of float32 products would decide the order; float64 replaces them."""

DECIMALS = 6
"""Decimals of a score that decide its rank: float32 is not more exact."""

RRF_CONSTANT = 60.0
"""k of reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009)."""

ENOUGH = 0.75
"""A text with this share of the attainable BM25 has enough words of the query: an answer seldom repeats them all."""

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


class Fusion(NamedTuple):
    """The fusion of both scores: `minmax` as specified, or `rrf`; `alpha` is the vector score's share in 0..1.

    Where the candidates lack words of the query, `rise` is added in part to `alpha`, and whole where they lack all.
    """

    alpha: float
    method: str = "minmax"
    rise: float = 0.0

    def choose_alpha(self, best: float, attainable: float) -> float:
        """Return alpha + rise · (1 − c); c is the share of `ENOUGH` of the attainable BM25 that the best candidate has.

        Attainable is what a text of average length with each word of the query once would score (ADR 149).
        """
        coverage = min(1.0, best / (ENOUGH * attainable)) if best > 0.0 and attainable > 0.0 else 0.0
        return self.alpha + self.rise * (1.0 - coverage)


class RankedRows(NamedTuple):
    """The best rows, best first, with their scores; `spread` is the range of all cosines, `alpha` the weight used.

    ``scores`` has a line each for the scaled vector score, the scaled BM25, both combined, the cosine and the raw BM25.
    ``lowest`` and ``highest`` are the raw BM25 of all candidates.
    """

    rows: Int64s
    scores: Floats
    spread: float
    alpha: float
    lowest: float
    highest: float


def check_alpha(alpha: float) -> float:
    """Return `alpha`, a number in 0..1. Raises `AlphaOutOfRange` (S-07)."""
    if math.isnan(alpha) or not 0.0 <= alpha <= 1.0:
        raise AlphaOutOfRange
    return alpha


def fuse(
    cosine: NDArray[np.floating], bm25: Floats, order: Int64s, fusion: Fusion, count: int, attainable: float = 0.0
) -> RankedRows:
    """Return the `count` best positions of these parallel scores, ties by `order`."""
    lowest, highest = (float(bm25.min()), float(bm25.max())) if len(bm25) else (0.0, 0.0)
    alpha = fusion.choose_alpha(highest, attainable) if fusion.rise else fusion.alpha
    cosines: Floats = cosine.astype(np.float64)
    scale = score_reciprocal_ranks if fusion.method == "rrf" else scale_min_max
    vector, lexical = scale(cosines), scale(bm25)
    combined = weigh_scores(vector, lexical, alpha)
    best = select_best(combined, order, count)
    scores = np.array([column[best] for column in (vector, lexical, combined, cosines, bm25)])
    spread = float(np.ptp(cosines)) if len(cosines) else 0.0
    return RankedRows(best, scores, spread, alpha, lowest, highest)


def scale_min_max(scores: Floats) -> Floats:
    """Return scores scaled to 0..1; all 0.5 where they are equal (S-29, S-30)."""
    if not scores.size:
        return scores
    low, high = scores.min(), scores.max()
    if high - low <= EQUAL_WITHIN:
        return np.full(scores.shape, 0.5)
    scaled: Floats = (scores - low) / (high - low)
    return scaled


def weigh_scores(vector: Floats, bm25: Floats, alpha: float) -> Floats:
    """Return alpha · vector + (1 − alpha) · bm25 (S-31)."""
    combined: Floats = alpha * vector + (1.0 - alpha) * bm25
    return combined


def add_best_sentences(ranked: RankedRows, sums: Floats, weight: float, order: Int64s, count: int) -> RankedRows:
    """Return the `count` best of these rows, with their BM25 raised by `weight` times the sum of their best sentence.

    ``sums`` has for each row the highest sum of the weights of the query's terms in one of its sentences. The scaled
    and the combined score follow; the raw BM25 stays. Ties are broken by `order`, which has a value for every row.
    """
    vector, lexical, combined, cosine, bm25 = ranked.scores
    if sums.any():
        raised = bm25 + weight * sums
        width = max(ranked.highest, float(raised.max())) - ranked.lowest
        lexical = (raised - ranked.lowest) / width if width > EQUAL_WITHIN else lexical
        combined = weigh_scores(vector, lexical, ranked.alpha)
    best = select_best(combined, order[ranked.rows], count)
    scores = np.array([column[best] for column in (vector, lexical, combined, cosine, bm25)])
    return ranked._replace(rows=ranked.rows[best], scores=scores)


def score_reciprocal_ranks(scores: Floats) -> Floats:
    """Return 1 / (60 + rank), rank 1 for the best; equal scores share the rank of their best.

    Scores that differ only by rounding are equal (S-41).
    """
    descending = -np.round(scores, DECIMALS)
    ranks = np.searchsorted(np.sort(descending), descending, side="left") + 1
    fused: Floats = 1.0 / (RRF_CONSTANT + ranks.astype(np.float64))
    return fused


def select_best(scores: Floats, order: Int64s, count: int) -> Int64s:
    """Return the positions of the `count` highest scores, highest first, ties by ascending `order` (S-33, S-34)."""
    if count < len(scores):
        threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
        pool = np.flatnonzero(scores >= threshold)
    else:
        pool = np.arange(len(scores))
    ranked: Int64s = pool[np.lexsort((order[pool], -scores[pool]))][:count]
    return ranked
