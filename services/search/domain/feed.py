"""The events of a playbook's change feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from libs.embedding.model import Float32s
from services.search.domain.bullet import IndexedBullet

Vectors = Mapping[str, Float32s]
"""The vectors of texts, shape (d,), float32, of the model that the feed was requested with."""


@dataclass(frozen=True, slots=True)
class BulletChange:
    """The change of one bullet in a revision; `after` is None when it was deleted.

    ``position`` is its index in the playbook after the revision, or before it when it was deleted. ``is_new`` is true
    when the revision added it.
    """

    bullet_id: str
    after: IndexedBullet | None
    position: int
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class PlaybookSnapshot:
    """All bullets of a playbook at one revision, in order, with the vectors that the curator sent."""

    revision: int
    bullets: Sequence[IndexedBullet]
    vectors: Vectors = field(default_factory=dict)
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CommittedRevision:
    """One revision with its changes and the vectors that the curator sent."""

    revision: int
    changes: Sequence[BulletChange]
    vectors: Vectors = field(default_factory=dict)
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """This revision is the newest one."""

    revision: int


Event = PlaybookSnapshot | CommittedRevision | FeedProgress


class ChangeFeed(Protocol):
    """The change feed of the curator."""

    def watch(
        self, dataset: str, after: int | None, embedded_revision: int = 0, committed_at: datetime | None = None
    ) -> AsyncIterator[Event]:
        """Yield every revision after `after`, in order and without end; after None a snapshot, then every revision.

        If `after` was not committed at `committed_at`, the store was replaced, and a snapshot comes first.
        The snapshot has only the vectors of bullets that changed after `embedded_revision`.

        Raises `HanseiError` when the feed fails, `OutOfRange` when `after` is newer than the newest revision.
        """

    async def require_dataset(self, dataset: str) -> None:
        """Raise `NotFound`, with similar names, unless the dataset exists; other `HanseiError` when that is unknown."""


@dataclass(frozen=True, slots=True)
class Reordering:
    """The effect of a revision on the order of a playbook: removed bullets, last first, and added ones, first first.

    ``moves`` is true when an added bullet comes before one that stays, so that positions other than the last change.
    """

    removed: Sequence[BulletChange]
    added: Sequence[BulletChange]
    moves: bool

    def apply(self, ids: list[str]) -> None:
        """Change the order in place; changes at the end cost no more than their number."""
        for change in self.removed:
            if change.position < len(ids) and ids[change.position] == change.bullet_id:
                del ids[change.position]
            else:
                ids.remove(change.bullet_id)
        for change in self.added:
            ids.insert(change.position, change.bullet_id)


def plan_reordering(count: int, contains: Callable[[str], bool], changes: Sequence[BulletChange]) -> Reordering:
    """Return the effect of `changes` on the order of `count` bullets; `contains` tells whether a bullet is present."""
    removed = sorted(
        (change for change in changes if change.after is None and contains(change.bullet_id)),
        key=lambda change: -change.position,
    )
    added = sorted(
        (change for change in changes if change.after is not None and not contains(change.bullet_id)),
        key=lambda change: change.position,
    )
    remaining = count - len(removed)
    return Reordering(removed, added, any(change.position < remaining + number for number, change in enumerate(added)))
