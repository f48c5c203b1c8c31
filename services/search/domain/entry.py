"""What an index is made of."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple

from services.search.domain.bullet import Bullet
from services.search.domain.errors import InvalidEntry
from services.search.domain.query import Attributes, ItemT


class Entry(NamedTuple, Generic[ItemT]):
    """One thing to find: `text` is embedded and counted, `keywords` are only counted, `item` is what is found.

    ``section``, ``confidence`` (0..1) and ``attributes`` are what filters look at. An index that takes it up checks it.
    """

    id: str
    text: str
    item: ItemT
    keywords: tuple[str, ...] = ()
    section: str = ""
    confidence: float = 0.5
    attributes: Attributes = ()

    def check(self) -> None:
        """Raise `InvalidEntry` unless it has an id and its confidence is a number."""
        if not self.id:
            raise InvalidEntry("id", self.id, "must not be empty")
        if not math.isfinite(self.confidence):
            raise InvalidEntry("confidence", self.confidence, "must be a finite number")


def bullet_entry(bullet: Bullet) -> Entry[Bullet]:
    """The entry of a bullet: keywords are counted but not embedded (S-14, S-18)."""
    return Entry(
        id=bullet.id,
        text=bullet.searchable_text,
        item=bullet,
        keywords=bullet.keywords,
        section=bullet.section,
        confidence=bullet.confidence_score,
    )
