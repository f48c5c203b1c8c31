"""What happens to a playbook, as search hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.search.domain.bullet import Bullet


@dataclass(frozen=True, slots=True)
class Change:
    """What a revision made of one bullet; `after` is None when it is gone.

    ``position`` is its place in the playbook after the revision; before it, when it is gone.
    """

    bullet_id: str
    after: Bullet | None
    position: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All bullets of a playbook at one revision, in order."""

    revision: int
    bullets: Sequence[Bullet]


@dataclass(frozen=True, slots=True)
class Committed:
    """One revision and what it changed."""

    revision: int
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing happened beyond this revision."""

    revision: int


Event = Snapshot | Committed | Alive


class Feed(Protocol):
    """The change feed of the playbooks' owner."""

    def watch(self, dataset: str, after: int | None) -> AsyncIterator[Event]:
        """Every revision after `after`, in order and without end; None begins with a snapshot.

        Raises `HanseiError` when the feed breaks, `OutOfRange` when it does not know a revision as late as `after`.
        """
        ...


def reordered(ids: Sequence[str], changes: Sequence[Change]) -> tuple[list[str], bool]:
    """The ids of a playbook, in order, after a revision; and whether anything but appending happened to the order."""
    after = list(ids)
    known = set(ids)
    gone = sorted((c for c in changes if c.after is None and c.bullet_id in known), key=lambda c: -c.position)
    for change in gone:
        if change.position < len(after) and after[change.position] == change.bullet_id:
            del after[change.position]
        else:
            after.remove(change.bullet_id)
    moved = False
    added = sorted((c for c in changes if c.after is not None and c.bullet_id not in known), key=lambda c: c.position)
    for change in added:
        moved = moved or change.position < len(after)
        after.insert(change.position, change.bullet_id)
    return after, moved
