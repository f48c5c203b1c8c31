"""The log of a dataset: revisions, and the changes whose fold is the playbook.

Every bullet has a *slot*, a number that grows with each new bullet and is never used again; slot order is playbook
order. Ids may repeat (C-21) or be used again after a removal (C-71), slots never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from services.curator.domain.curation import Operation, VoteOutcome
from services.curator.domain.errors import RevisionDropped, RevisionErased
from services.curator.domain.playbook import Bullet


class RevisionKind(StrEnum):
    """The kind of operation that made a revision."""

    CURATE = "curate"
    APPLY = "apply"
    RESTORE = "restore"
    REVOKE = "revoke"
    IMPORT = "import"
    MERGE = "merge"
    REVIEW = "review"
    UPKEEP = "upkeep"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The number of a revision and the time of its commit (aware UTC)."""

    revision: int
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredBullet:
    """A bullet in its slot.

    `created` stamps its addition, `updated` the last change of its text, section or keywords; `touched_revision` is the
    newest revision that changed it or voted on it.
    """

    slot: int
    bullet: Bullet
    created: Stamp
    updated: Stamp
    touched_revision: int


@dataclass(frozen=True, slots=True)
class SlotChange:
    """The bullet of one slot before and after a revision; None stands for no bullet.

    `position` is the 0-based index in the playbook after the change, or before it if the bullet was removed.
    """

    slot: int
    before: StoredBullet | None
    after: StoredBullet | None
    position: int = 0

    @property
    def bullet_id(self) -> str:
        """Return the id of the bullet that changed."""
        stored = self.after or self.before
        return stored.bullet.id if stored else ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Author, reason and source of a revision.

    `model` is the model that proposed the deltas, `offline` for rules, empty for none. `signal` is the evidence for the
    outcome of the source trajectory, such as `reward` or `self_report`; empty if unknown.
    """

    kind: RevisionKind
    author: str
    reason: str = ""
    request_id: str = ""
    source_trajectory: str = ""
    model: str = ""
    signal: str = ""


@dataclass(frozen=True, slots=True)
class Revision:
    """One numbered entry of a dataset's log."""

    dataset: str
    stamp: Stamp
    origin: Origin
    summary: str
    bullets_before: int
    bullets_after: int
    operations: tuple[Operation, ...] = ()
    votes: tuple[VoteOutcome, ...] = ()
    changes: tuple[SlotChange, ...] = ()

    @property
    def number(self) -> int:
        """Return the number of the revision: 1, 2, 3 … without gaps."""
        return self.stamp.revision


def require_revision(dataset: str, revision: int, deleted_revision: int, first_revision: int) -> None:
    """Raise RevisionErased for a revision of a dataset that was deleted, RevisionDropped for one that is not kept."""
    if 0 < revision < deleted_revision:
        raise RevisionErased(dataset, revision, deleted_revision)
    if revision < first_revision and first_revision > 1:
        raise RevisionDropped(dataset, revision, first_revision)


def fold(changes: Iterable[SlotChange], onto: Mapping[int, StoredBullet] | None = None) -> dict[int, StoredBullet]:
    """Return the bullets by slot, in playbook order, after applying `changes` in log order to `onto`.

    `onto` is in playbook order. New bullets have higher slots, so only a bullet that returns to its slot needs a sort.
    """
    slots = dict(onto or {})
    highest, is_ordered = next(reversed(slots), -1), True
    for change in changes:
        if change.after is None:
            slots.pop(change.slot, None)
            continue
        if change.slot not in slots:
            is_ordered = is_ordered and change.slot > highest
            highest = max(highest, change.slot)
        slots[change.slot] = change.after
    return slots if is_ordered else dict(sorted(slots.items()))


def merge_changes(changes: Iterable[SlotChange]) -> list[SlotChange]:
    """Return one change for each slot whose bullet differs in the end, in slot order."""
    first: dict[int, SlotChange] = {}
    last: dict[int, SlotChange] = {}
    for change in changes:
        first.setdefault(change.slot, change)
        last[change.slot] = change
    combined = (replace(last[slot], before=first[slot].before) for slot in sorted(first))
    return [change for change in combined if not _has_same_bullet(change.before, change.after)]


def invert_changes(changes: Sequence[SlotChange]) -> list[SlotChange]:
    """Return the changes that undo `changes`, in the order in which to apply them."""
    return [replace(change, before=change.after, after=change.before) for change in reversed(changes)]


def join_by_id(changes: Sequence[SlotChange]) -> list[SlotChange]:
    """Return changes by bullet id: a bullet that moved from one slot to another is one change."""
    left = {change.bullet_id: change for change in changes if change.after is None}
    joined: list[SlotChange] = []
    for change in changes:
        if change.after is None:
            continue
        origin = left.pop(change.bullet_id, None) if change.before is None else None
        joined.append(replace(change, before=origin.before) if origin else change)
    joined = [change for change in joined if not _has_same_bullet(change.before, change.after)]
    return joined + [change for change in changes if change.after is None and left.get(change.bullet_id) is change]


def _has_same_bullet(stored: StoredBullet | None, other: StoredBullet | None) -> bool:
    return (stored and stored.bullet) == (other and other.bullet)
