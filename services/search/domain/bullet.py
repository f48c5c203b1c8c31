"""The bullets that search indexes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexedBullet:
    """One lesson of a playbook (C-01); searches read `searchable_text` and `keywords`.

    ``is_served`` is false for a retired bullet: it keeps its position in the playbook and is never found.
    ``serialized_form`` is the bullet as the curator sent it; results carry it unchanged.
    """

    id: str
    section: str
    content: str
    searchable_text: str
    keywords: tuple[str, ...] = ()
    helpful: int = 0
    harmful: int = 0
    source_trajectory: str = ""
    is_served: bool = True
    serialized_form: bytes = b""

    @property
    def confidence_score(self) -> float:
        """Return the share of helpful votes in 0..1; 0.5 without votes (C-02)."""
        votes = self.helpful + self.harmful
        return self.helpful / votes if votes else 0.5

    @property
    def smoothed_confidence(self) -> float:
        """Return the share of helpful votes after one more of each kind: one bad vote alone leaves a third."""
        return (self.helpful + 1) / (self.helpful + self.harmful + 2)
