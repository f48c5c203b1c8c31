"""What an index is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic

from services.search.domain.bullet import Bullet
from services.search.domain.errors import InvalidEntry
from services.search.domain.query import Attributes, ItemT


@dataclass(frozen=True, slots=True)
class Entry(Generic[ItemT]):
    """One thing to find: `text` is embedded and counted, `keywords` are only counted, `item` is what is found.

    ``section``, ``confidence`` (0..1) and ``attributes`` are what filters look at. Raises `InvalidEntry`.
    """

    id: str
    text: str
    item: ItemT
    keywords: tuple[str, ...] = ()
    section: str = ""
    confidence: float = 0.5
    attributes: Attributes = ()

    def __post_init__(self) -> None:
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
