"""The formulas of BM25.

`okapi` is rank_bm25's BM25Okapi with its floor for common terms (S-18 to S-26; Robertson & Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009). `lucene` is the variant of Apache Lucene, whose idf ln(1 + ...) is never
negative and needs no floor; it drops the constant factor k1 + 1 from the numerator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


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
        """Return the factor on a term's frequency: k1 + 1, or 1 in Lucene's form."""
        return self.k1 + 1.0 if self.floored else 1.0

    def compute_idf(self, total: int, document_count: int) -> float:
        """Return the idf, before the floor, of a term that so many of `total` entries contain, maybe none (S-20)."""
        odds = (total - document_count + 0.5) / (document_count + 0.5)
        return math.log(odds) if self.floored else math.log1p(odds)


OKAPI = Variant("okapi", k1=1.5, b=0.75, floored=True)
LUCENE = Variant("lucene", k1=0.9, b=0.6, floored=False)
VARIANTS = {variant.name: variant for variant in (OKAPI, LUCENE)}
