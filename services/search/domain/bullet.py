"""A bullet as search sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bullet:
    """One lesson of a playbook (C-01); `searchable_text` and `keywords` are what is searched.

    ``served`` is false for a retired bullet: it has its place in the playbook and is never found. ``origin`` is the
    bullet as its owner sent it, handed on unread with every result.
    """

    id: str
    section: str
    content: str
    searchable_text: str
    keywords: tuple[str, ...] = ()
    helpful: int = 0
    harmful: int = 0
    source_trajectory: str = ""
    served: bool = True
    origin: bytes = b""

    @property
    def confidence_score(self) -> float:
        """Share of helpful votes in 0..1; 0.5 without votes (C-02)."""
        votes = self.helpful + self.harmful
        return self.helpful / votes if votes else 0.5
