"""BM25 by the book: the scores that every faster way to compute them must equal.

`okapi` is rank_bm25's BM25Okapi with its floor for common terms (S-18 to S-26; Robertson & Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009). `lucene` is the variant of Apache Lucene, whose idf ln(1 + ...) is never
negative and needs no floor; it drops the constant factor k1 + 1 from the numerator.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Variant:
    """The parameters of a BM25 formula.

    ``floored`` selects Okapi's idf with its floor of `epsilon` times the average; otherwise Lucene's idf.
    """

    name: str
    k1: float
    b: float
    floored: bool
    epsilon: float = 0.25

    @property
    def gain(self) -> float:
        """The factor on a term's frequency: k1 + 1, or 1 in Lucene's form."""
        return self.k1 + 1.0 if self.floored else 1.0

    def idf(self, total: int, holding: int) -> float:
        """The weight of a term that `holding` of `total` entries contain, before the floor (S-20)."""
        if self.floored:
            return math.log(total - holding + 0.5) - math.log(holding + 0.5)
        return math.log1p((total - holding + 0.5) / (holding + 0.5))


OKAPI = Variant("okapi", k1=1.5, b=0.75, floored=True)
LUCENE = Variant("lucene", k1=0.9, b=0.6, floored=False)
VARIANTS = {variant.name: variant for variant in (OKAPI, LUCENE)}


def bm25_scores(corpus: Sequence[Sequence[str]], query: Sequence[str], variant: Variant = OKAPI) -> NDArray[np.float64]:
    """Raw score of every entry of `corpus` (lists of terms) for the terms of `query`: float64, shape (N,).

    All zero for an empty query and for a corpus without terms (S-25, S-26).
    """
    scores = np.zeros(len(corpus))
    lengths = [len(terms) for terms in corpus]
    if not sum(lengths):
        return scores
    counts = [Counter(terms) for terms in corpus]
    average_length = sum(lengths) / len(corpus)
    idf = _idf_of_terms(counts, variant)
    for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        norm = variant.k1 * (1 - variant.b + variant.b * length / average_length)
        for term in query:
            frequency = count[term]
            if frequency:
                scores[row] += idf[term] * frequency * variant.gain / (frequency + norm)
    return scores


def _idf_of_terms(counts: Sequence[Counter[str]], variant: Variant) -> dict[str, float]:
    holding = Counter(term for count in counts for term in count)
    idf = {term: variant.idf(len(counts), n) for term, n in holding.items()}
    if variant.floored:
        floor = variant.epsilon * math.fsum(idf.values()) / len(idf)
        return {term: floor if value < 0 else value for term, value in idf.items()}
    return idf
