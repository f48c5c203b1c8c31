"""Collect the changes of the next revision; later steps of a batch see the changes of earlier ones."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from services.curator.domain.ids import create_id, parse_number
from services.curator.domain.log import SlotChange, Stamp, StoredBullet
from services.curator.domain.playbook import Bullet, Source, hash_content


class DatasetView(Protocol):
    """The newest state of a dataset, read on demand."""

    revision: int
    bullets: int
    next_slot: int

    def find_bullets_with_ids(self, bullet_ids: Sequence[str]) -> Sequence[StoredBullet]:
        """Return the bullets with these ids; those with the same id are in playbook order."""
        ...

    def find_bullets_with_fingerprint(self, fingerprint: str) -> Sequence[StoredBullet]:
        """Return the bullets whose content has this fingerprint, in playbook order."""
        ...

    def list_bullets(self) -> Sequence[StoredBullet]:
        """Return all bullets in playbook order."""
        ...

    def find_highest_number(self) -> int:
        """Return the highest number in a bullet's id (C-71)."""
        ...

    def find_removal_after(self, bullet_id: str, revision: int) -> int | None:
        """Return the revision after `revision` that removed the bullet with this id, None if none did."""
        ...

    def find_ballots(self, trajectory: str) -> Sequence[Ballot]:
        """Return the votes of one trajectory that were not withdrawn."""
        ...


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote event on a slot. An import counts all votes of a bullet in one; any other event counts at most one."""

    slot: int
    trajectory: str
    round: int
    helpful: int
    harmful: int
    reason: str = ""

    @property
    def key(self) -> tuple[int, str, int]:
        """Return slot, trajectory and round, by which a vote is unique."""
        return self.slot, self.trajectory, self.round


class Draft:
    """Changes on top of a view. Nothing is stored: `changes`, `cast_ballots` and `withdrawn_ballots` are the result."""

    def __init__(
        self, view: DatasetView, stamp: Stamp, new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    ) -> None:
        self.view = view
        self.stamp = stamp
        self.cast_ballots: dict[tuple[int, str, int], Ballot] = {}
        self.withdrawn_ballots: set[tuple[int, str, int]] = set()
        self.bullets = view.bullets
        self.next_slot = view.next_slot
        self._new_uuid = new_uuid
        self._next_number: int | None = None
        self._before: dict[int, StoredBullet | None] = {}
        self._now: dict[int, StoredBullet | None] = {}
        self._read_by_id: dict[str, list[StoredBullet]] = {}
        self._read_votes: dict[str, set[tuple[int, str, int]]] = {}
        self._slots_by_id: dict[str, set[int]] = {}
        self._slots_by_fingerprint: dict[str, set[int]] = {}

    @property
    def changes(self) -> list[SlotChange]:
        """Return one change for each changed slot, in slot order, without positions."""
        changes = (SlotChange(slot, self._before[slot], self._now[slot]) for slot in sorted(self._now))
        return [change for change in changes if change.before != change.after]

    @property
    def is_empty(self) -> bool:
        """Return True if the draft has neither a change nor a vote."""
        return not (self.changes or self.cast_ballots or self.withdrawn_ballots)

    def read_bullets(self, bullet_ids: Iterable[str]) -> None:
        """Read the bullets with these ids at once; `find` then needs no read of its own."""
        unread = sorted(set(bullet_ids) - self._read_by_id.keys())
        self._read_by_id |= {bullet_id: [] for bullet_id in unread}
        for stored in self.view.find_bullets_with_ids(unread) if unread else ():
            self._read_by_id[stored.bullet.id].append(stored)

    def find(self, bullet_id: str) -> StoredBullet | None:
        """Return the first bullet with this id (C-21)."""
        self.read_bullets([bullet_id])
        return self._find_first(self._read_by_id[bullet_id], self._slots_by_id.get(bullet_id, ()))

    def find_duplicate(self, content: str) -> StoredBullet | None:
        """Return the first bullet with exactly this content."""
        mark = hash_content(content)
        return self._find_first(self.view.find_bullets_with_fingerprint(mark), self._slots_by_fingerprint.get(mark, ()))

    def list_bullets(self) -> list[StoredBullet]:
        """Return all bullets in playbook order."""
        slots = {stored.slot: stored for stored in self.view.list_bullets() if stored.slot not in self._now}
        slots |= {slot: stored for slot, stored in self._now.items() if stored}
        return [slots[slot] for slot in sorted(slots)]

    def find_edited_bullet(self, slot: int) -> StoredBullet | None:
        """Return the bullet of a slot that this draft changed; None if it did not, or removed the bullet."""
        return self._now.get(slot)

    def add(self, section: str, content: str, **fields: object) -> StoredBullet:
        """Append a new bullet with a new id and no votes, and return it (C-62, C-68 to C-73)."""
        if self._next_number is None:
            self._next_number = self.view.find_highest_number() + 1
        bullet_id = create_id(section, self._next_number, self._is_used, self._new_uuid)
        self._next_number += 1
        return self.insert(
            Bullet(id=bullet_id, section=section, content=content, searchable_text=content).replace_fields(**fields)
        )

    def insert(self, bullet: Bullet) -> StoredBullet:
        """Append `bullet` in a new slot, without its votes, and return it."""
        stored = StoredBullet(self.next_slot, bullet.replace_fields(helpful=0, harmful=0), self.stamp, self.stamp, 0)
        self.next_slot += 1
        self.bullets += 1
        return self._put(None, stored)

    def bring_back(self, stored: StoredBullet) -> StoredBullet:
        """Put a removed bullet back into its slot, with its counters, and return it."""
        self.bullets += 1
        return self._put(None, replace(stored, updated=self.stamp))

    def rewrite(self, stored: StoredBullet, bullet: Bullet) -> StoredBullet:
        """Replace text, section, keywords, sources or state of a bullet, not its counters; return it."""
        bullet = bullet.replace_fields(helpful=stored.bullet.helpful, harmful=stored.bullet.harmful)
        return self._put(stored, replace(stored, bullet=bullet, updated=self.stamp))

    def revert(self, stored: StoredBullet, bullet: Bullet) -> StoredBullet:
        """Replace a bullet by an earlier version, counters included; the caller sets the vote events."""
        is_same_text = bullet.replace_fields(helpful=0, harmful=0) == stored.bullet.replace_fields(helpful=0, harmful=0)
        updated = stored.updated if is_same_text else self.stamp
        return self._put(stored, replace(stored, bullet=bullet, updated=updated))

    def note_sources(self, stored: StoredBullet, sources: tuple[Source, ...]) -> StoredBullet:
        """Replace the sources of a bullet. This is no update with which others could conflict."""
        return self._put(stored, replace(stored, bullet=stored.bullet.replace_fields(sources=sources)))

    def remove(self, stored: StoredBullet) -> None:
        """Remove a bullet and its votes."""
        self._before.setdefault(stored.slot, stored)
        self._forget(stored.slot)
        self._now[stored.slot] = None
        self.cast_ballots = {key: ballot for key, ballot in self.cast_ballots.items() if key[0] != stored.slot}
        self.bullets -= 1

    def count_ballot(self, stored: StoredBullet, ballot: Ballot) -> StoredBullet:
        """Add a vote event to a bullet, and return the bullet."""
        self.cast_ballots[stored.slot, ballot.trajectory, ballot.round] = ballot
        return self._add_votes(stored, ballot.helpful, ballot.harmful)

    def withdraw_ballot(self, stored: StoredBullet, ballot: Ballot) -> StoredBullet:
        """Withdraw a stored vote event of a bullet, and return the bullet."""
        self.withdrawn_ballots.add((stored.slot, ballot.trajectory, ballot.round))
        return self._add_votes(stored, -ballot.helpful, -ballot.harmful)

    def find_last_update(self, stored: StoredBullet) -> int:
        """Return the revision that updated the bullet last before this draft; 0 if this draft added it."""
        before = self._before.get(stored.slot, stored)
        return before.updated.revision if before else 0

    def has_vote(self, stored: StoredBullet, trajectory: str, round_: int) -> bool:
        """Return True if this vote is already counted, here or in the log."""
        key = (stored.slot, trajectory, round_)
        if key in self.cast_ballots:
            return True
        if trajectory not in self._read_votes:
            self._read_votes[trajectory] = {ballot.key for ballot in self.view.find_ballots(trajectory)}
        return key in self._read_votes[trajectory] and key not in self.withdrawn_ballots

    def _add_votes(self, stored: StoredBullet, helpful: int, harmful: int) -> StoredBullet:
        bullet = stored.bullet
        counted = bullet.replace_fields(helpful=bullet.helpful + helpful, harmful=bullet.harmful + harmful)
        return self._put(stored, replace(stored, bullet=counted))

    def _put(self, before: StoredBullet | None, after: StoredBullet) -> StoredBullet:
        self._before.setdefault(after.slot, before)
        self._forget(after.slot)
        after = replace(after, touched_revision=self.stamp.revision)
        self._now[after.slot] = after
        self._slots_by_id.setdefault(after.bullet.id, set()).add(after.slot)
        self._slots_by_fingerprint.setdefault(hash_content(after.bullet.content), set()).add(after.slot)
        return after

    def _forget(self, slot: int) -> None:
        stored = self._now.get(slot)
        if stored is not None:
            self._slots_by_id[stored.bullet.id].discard(slot)
            self._slots_by_fingerprint[hash_content(stored.bullet.content)].discard(slot)

    def _is_used(self, bullet_id: str) -> bool:
        # A number beyond the highest one is free in the view, unless it is too long to be counted.
        is_used_in_view = parse_number(bullet_id) is None and bool(self.view.find_bullets_with_ids([bullet_id]))
        return is_used_in_view or bool(self._slots_by_id.get(bullet_id))

    def _find_first(self, bullets: Sequence[StoredBullet], changed_slots: Iterable[int]) -> StoredBullet | None:
        """Return the first of the unchanged bullets of the view and of the changed ones of the draft."""
        untouched = (stored for stored in bullets if stored.slot not in self._now)
        candidates = [*untouched, *(stored for slot in changed_slots if (stored := self._now[slot]))]
        return min(candidates, key=lambda stored: stored.slot, default=None)
