"""Compare texts without a model, by the cosine of their counted words and character pairs.

Words are the features of languages that separate them; pairs of neighbouring characters are those of Japanese. The
weight of a feature is 1 + ln(count) (sublinear term frequency; Salton & Buckley 1988).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from libs.embedding.model import SimilarityThresholds
from services.curator.domain.log import StoredBullet
from services.curator.domain.similarity import Similarity

# ASCII words; every other letter counts in pairs with its neighbour.
_WORD = re.compile(r"[a-z0-9_]+|[^\W\d_a-z]+")
_STOP_WORDS = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "been", "before", "but", "by", "do", "does", "for", "from", "had"),
        *("has", "have", "if", "in", "into", "is", "it", "its", "of", "on", "or", "that", "the", "then", "there"),
        *("these", "this", "to", "was", "were", "when", "which", "will", "with", "you", "your"),
    ]
)


@lru_cache(maxsize=65_536)
def weigh_words(text: str) -> Mapping[str, float]:
    """Return the weights of the features of `text`, scaled to length 1; empty without a feature."""
    counts = Counter(_extract_features(text.lower()))
    raw = {feature: 1.0 + math.log(count) for feature, count in counts.items()}
    length = math.sqrt(sum(weight * weight for weight in raw.values()))
    return {feature: weight / length for feature, weight in raw.items()}


def _extract_features(text: str) -> Iterable[str]:
    words = _WORD.findall(text)
    content = [word for word in words if word not in _STOP_WORDS] or words
    for word in content:
        if word.isascii():
            yield _stem_word(word)
        else:
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))


def _stem_word(word: str) -> str:
    """Return the word without its endings of number and tense."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


class WordSimilarity(Similarity):
    """Compares by words alone."""

    name = "cosine of words"
    thresholds = SimilarityThresholds(same_meaning=0.8, same_subject=0.45)

    def compute_cosine(self, text: str, other: str) -> float:
        """Return the cosine of two texts, 0..1: 1 for the same features, 0 for none in common."""
        small, large = sorted((weigh_words(text), weigh_words(other)), key=len)
        return min(1.0, sum(weight * large.get(feature, 0.0) for feature, weight in small.items()))

    def rank(self, content: str, bullets: Sequence[StoredBullet], limit: int) -> list[StoredBullet]:
        """Return at most `limit` bullets that share words with `content`, by their cosine, best first."""
        cosines = ((self.compute_cosine(content, stored.bullet.content), stored) for stored in bullets)
        found = [pair for pair in cosines if pair[0] > 0.0]
        return [stored for _, stored in sorted(found, key=lambda pair: -pair[0])[:limit]]


WORDS = WordSimilarity()
