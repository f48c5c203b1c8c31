"""The entries of an index."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple

from services.search.domain.bullet import IndexedBullet
from services.search.domain.errors import InvalidEntry
from services.search.domain.query import Attributes, ItemT


class Entry(NamedTuple, Generic[ItemT]):
    """An item that searches can find: `text` is embedded and tokenised, `keywords` are only tokenised.

    Filters use ``section``, ``confidence`` or ``smoothed_confidence`` (0..1), and ``attributes``.
    """

    id: str
    text: str
    item: ItemT
    keywords: tuple[str, ...] = ()
    section: str = ""
    confidence: float = 0.5
    attributes: Attributes = ()
    smoothed_confidence: float = 0.5

    def check(self) -> None:
        """Raise `InvalidEntry` unless it has an id and its confidence is a number."""
        if not self.id:
            raise InvalidEntry("id", self.id, "must not be empty")
        if not math.isfinite(self.confidence):
            raise InvalidEntry("confidence", self.confidence, "must be a finite number")


def create_bullet_entry(bullet: IndexedBullet) -> Entry[IndexedBullet]:
    """Return the entry of a bullet: keywords are tokenised but not embedded (S-14, S-18)."""
    return Entry(
        id=bullet.id,
        text=bullet.searchable_text,
        item=bullet,
        keywords=bullet.keywords,
        section=bullet.section,
        confidence=bullet.confidence_score,
        smoothed_confidence=bullet.smoothed_confidence,
    )
