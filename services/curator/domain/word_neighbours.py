"""Find the bullets most similar to a text by words, without comparing it with all bullets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from services.curator.domain.log import StoredBullet
from services.curator.domain.word_similarity import WORDS, weigh_words

# The nearest bullet by score is among this many bullets that are nearest by cosine.
CANDIDATES = 16


class WordNeighbours:
    """An inverted index of bullets by the features of their texts."""

    def __init__(self, bullets: Iterable[StoredBullet] = ()) -> None:
        self._bullets: dict[int, StoredBullet] = {}
        self._slots: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for stored in bullets:
            self.put(stored)

    def put(self, stored: StoredBullet) -> None:
        """Add a bullet, or replace the text of its slot."""
        self.drop(stored.slot)
        self._bullets[stored.slot] = stored
        for feature, weight in weigh_words(stored.bullet.content).items():
            self._slots[feature][stored.slot] = weight

    def drop(self, slot: int) -> None:
        """Remove the bullet of this slot, if there is one."""
        stored = self._bullets.pop(slot, None)
        if stored is not None:
            for feature in weigh_words(stored.bullet.content):
                self._slots[feature].pop(slot, None)

    def find_nearest(self, content: str) -> tuple[StoredBullet | None, float]:
        """Return the first bullet with the highest score, and the score; (None, 0.0) if every score is 0."""
        return WORDS.find_nearest(content, sorted(self._rank(content, CANDIDATES), key=lambda stored: stored.slot))

    def _rank(self, content: str, limit: int) -> list[StoredBullet]:
        """Return at most `limit` bullets that share words with `content`, by their cosine, best first."""
        scores: defaultdict[int, float] = defaultdict(float)
        for feature, weight in weigh_words(content).items():
            for slot, other in self._slots.get(feature, {}).items():
                scores[slot] += weight * other
        return [self._bullets[slot] for slot in sorted(scores, key=lambda slot: (-scores[slot], slot))[:limit]]
