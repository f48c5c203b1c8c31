"""The bullets most similar to a text by words, found without comparing it with all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from services.curator.domain.log import Stored
from services.curator.domain.word_similarity import WORDS, word_weights

# The true nearest is among this many of the most similar, whatever the rules of form say about them.
CANDIDATES = 16


class Neighbours:
    """An inverted index of bullets by the features of their texts."""

    def __init__(self, bullets: Iterable[Stored] = ()) -> None:
        self._bullets: dict[int, Stored] = {}
        self._slots: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for stored in bullets:
            self.put(stored)

    def put(self, stored: Stored) -> None:
        """Add a bullet, or replace the text of its slot."""
        self.drop(stored.slot)
        self._bullets[stored.slot] = stored
        for feature, weight in word_weights(stored.bullet.content).items():
            self._slots[feature][stored.slot] = weight

    def drop(self, slot: int) -> None:
        """Remove the bullet of this slot, if there is one."""
        stored = self._bullets.pop(slot, None)
        if stored is not None:
            for feature in word_weights(stored.bullet.content):
                self._slots[feature].pop(slot, None)

    def nearest(self, content: str) -> tuple[Stored | None, float]:
        """Return the bullet most similar to `content`, the first of equals, and its score; (None, 0.0) for none."""
        return WORDS.nearest(content, sorted(self._rank(content, CANDIDATES), key=lambda stored: stored.slot))

    def _rank(self, content: str, limit: int) -> list[Stored]:
        """Return the `limit` bullets most similar to `content` by words, best first; none that shares no word."""
        scores: defaultdict[int, float] = defaultdict(float)
        for feature, weight in word_weights(content).items():
            for slot, other in self._slots.get(feature, {}).items():
                scores[slot] += weight * other
        return [self._bullets[slot] for slot in sorted(scores, key=lambda slot: (-scores[slot], slot))[:limit]]
