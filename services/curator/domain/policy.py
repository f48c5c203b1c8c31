"""The policy of a dataset: review, growth, retirement of bullets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum


class ReviewMode(StrEnum):
    """The changes that wait for approval."""

    AUTO = "auto"
    REVIEW = "review"
    TIERED = "tiered"


class Trust(StrEnum):
    """The trust in an author of changes."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


DEFAULT_MAX_BULLETS = 100_000
DEFAULT_PENDING_LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a dataset.

    `max_bullets` and `max_tokens` bound its growth (0 tokens = no limit). `duplicate_threshold` is the similarity in
    0..1 from which two bullets are the same lesson (None = exact duplicates only). A bullet with at least
    `retire_after_harmful` harmful votes, and more of them than helpful ones, retires (0 = never). `trust` names
    authors; others are medium.
    """

    review_mode: ReviewMode = ReviewMode.AUTO
    max_bullets: int = DEFAULT_MAX_BULLETS
    max_tokens: int = 0
    duplicate_threshold: float | None = None
    retire_after_harmful: int = 0
    trust: Mapping[str, Trust] = field(default_factory=dict)
    pending_lifetime: timedelta = DEFAULT_PENDING_LIFETIME

    def get_trust(self, author: str) -> Trust:
        """Return the trust in `author`."""
        return self.trust.get(author, Trust.MEDIUM)
