"""A draft of the next revision: what changes on top of the newest state, visible to later steps of the same batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from services.curator.domain.ids import new_id
from services.curator.domain.log import Change, Stamp, Stored
from services.curator.domain.playbook import Bullet, Source, fingerprint


class View(Protocol):
    """The newest state of a dataset, as far as it is asked for."""

    revision: int
    bullets: int
    next_slot: int

    def named(self, bullet_id: str) -> Sequence[Stored]:
        """The bullets with this id, in playbook order."""
        ...

    def with_content(self, mark: str) -> Sequence[Stored]:
        """The bullets whose content has this fingerprint, in playbook order."""
        ...

    def everything(self) -> Sequence[Stored]:
        """All bullets in playbook order."""
        ...

    def highest_number(self) -> int:
        """The highest number in a bullet's id (C-71)."""
        ...

    def removed_after(self, bullet_id: str, revision: int) -> int | None:
        """The revision after `revision` that removed the bullet with this id, None if none did."""
        ...

    def voted(self, slot: int, trajectory: str, round_: int) -> bool:
        """Whether this vote is counted already."""
        ...


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote event on a slot. An import brings all votes of a bullet as one event; any other counts one or none."""

    slot: int
    trajectory: str
    round: int
    helpful: int
    harmful: int
    reason: str = ""


class Draft:
    """Edits on top of a view. Nothing is written: `changes`, `cast` and `withdrawn` say what a revision would hold."""

    def __init__(self, view: View, stamp: Stamp, new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())) -> None:
        self.view = view
        self.stamp = stamp
        self.cast: dict[tuple[int, str, int], Ballot] = {}
        self.withdrawn: set[tuple[int, str, int]] = set()
        self.bullets = view.bullets
        self.next_slot = view.next_slot
        self._new_uuid = new_uuid
        self._next_number: int | None = None
        self._before: dict[int, Stored | None] = {}
        self._now: dict[int, Stored | None] = {}
        self._slots_by_id: dict[str, set[int]] = {}
        self._slots_by_mark: dict[str, set[int]] = {}

    @property
    def changes(self) -> list[Change]:
        """One change per touched slot, in slot order; positions are the store's to fill in."""
        changes = (Change(slot, self._before[slot], self._now[slot]) for slot in sorted(self._now))
        return [change for change in changes if change.before != change.after]

    @property
    def empty(self) -> bool:
        """Whether a revision of this draft would hold neither a change nor a vote."""
        return not (self.changes or self.cast or self.withdrawn)

    def find(self, bullet_id: str) -> Stored | None:
        """The first bullet with this id (C-21)."""
        return self._first(self.view.named(bullet_id), self._slots_by_id.get(bullet_id, ()))

    def twin(self, content: str) -> Stored | None:
        """The first bullet that says exactly this."""
        mark = fingerprint(content)
        return self._first(self.view.with_content(mark), self._slots_by_mark.get(mark, ()))

    def everything(self) -> list[Stored]:
        """All bullets in playbook order."""
        slots = {stored.slot: stored for stored in self.view.everything() if stored.slot not in self._now}
        slots |= {slot: stored for slot, stored in self._now.items() if stored}
        return [slots[slot] for slot in sorted(slots)]

    def edited(self, slot: int) -> Stored | None:
        """The bullet in a slot that this draft touched; None when it did not, or removed the bullet."""
        return self._now.get(slot)

    def add(self, section: str, content: str, **fields: object) -> Stored:
        """A new bullet at the end, with an id of its own and no votes (C-62, C-68 to C-73)."""
        if self._next_number is None:
            self._next_number = self.view.highest_number() + 1
        bullet_id = new_id(section, self._next_number, self._taken, self._new_uuid)
        self._next_number += 1
        return self.place(
            Bullet(id=bullet_id, section=section, content=content, searchable_text=content).having(**fields)
        )

    def place(self, bullet: Bullet) -> Stored:
        """`bullet` as it is, without votes, in a new slot at the end."""
        stored = Stored(self.next_slot, bullet.having(helpful=0, harmful=0), self.stamp, self.stamp, 0)
        self.next_slot += 1
        self.bullets += 1
        return self._put(None, stored)

    def bring_back(self, stored: Stored) -> Stored:
        """A bullet that stood in its slot before, with the counters its votes then had."""
        self.bullets += 1
        return self._put(None, replace(stored, updated=self.stamp))

    def rewrite(self, stored: Stored, bullet: Bullet) -> Stored:
        """The bullet with new text, section, keywords, sources or state; its votes stay."""
        kept = bullet.having(helpful=stored.bullet.helpful, harmful=stored.bullet.harmful)
        return self._put(stored, replace(stored, bullet=kept, updated=self.stamp))

    def turn_into(self, stored: Stored, bullet: Bullet) -> Stored:
        """The bullet as it was at another time, counters included; its vote events are the caller's to set."""
        same = bullet.having(helpful=0, harmful=0) == stored.bullet.having(helpful=0, harmful=0)
        updated = stored.updated if same else self.stamp
        return self._put(stored, replace(stored, bullet=bullet, updated=updated))

    def note_sources(self, stored: Stored, sources: tuple[Source, ...]) -> Stored:
        """The bullet with other sources and the same text: not an update that others could conflict with."""
        return self._put(stored, replace(stored, bullet=stored.bullet.having(sources=sources)))

    def remove(self, stored: Stored) -> None:
        """The bullet and its votes go."""
        self._before.setdefault(stored.slot, stored)
        self._forget(stored.slot)
        self._now[stored.slot] = None
        self.cast = {key: ballot for key, ballot in self.cast.items() if key[0] != stored.slot}
        self.bullets -= 1

    def count(self, stored: Stored, ballot: Ballot) -> Stored:
        """The bullet with one more vote event."""
        self.cast[stored.slot, ballot.trajectory, ballot.round] = ballot
        return self._tally(stored, ballot.helpful, ballot.harmful)

    def uncount(self, stored: Stored, ballot: Ballot) -> Stored:
        """The bullet with one vote event of the log less."""
        self.withdrawn.add((stored.slot, ballot.trajectory, ballot.round))
        return self._tally(stored, -ballot.helpful, -ballot.harmful)

    def updated_before(self, stored: Stored) -> int:
        """The revision that last updated the bullet, this draft aside; 0 when this draft added it."""
        known = self._before.get(stored.slot, stored)
        return known.updated.revision if known else 0

    def voted(self, stored: Stored, trajectory: str, round_: int) -> bool:
        """Whether this vote is counted already, here or in the log."""
        key = (stored.slot, trajectory, round_)
        if key in self.cast:
            return True
        return key not in self.withdrawn and self.view.voted(*key)

    def _tally(self, stored: Stored, helpful: int, harmful: int) -> Stored:
        bullet = stored.bullet
        counted = bullet.having(helpful=bullet.helpful + helpful, harmful=bullet.harmful + harmful)
        return self._put(stored, replace(stored, bullet=counted))

    def _put(self, before: Stored | None, after: Stored) -> Stored:
        self._before.setdefault(after.slot, before)
        self._forget(after.slot)
        after = replace(after, touched=self.stamp.revision)
        self._now[after.slot] = after
        self._slots_by_id.setdefault(after.bullet.id, set()).add(after.slot)
        self._slots_by_mark.setdefault(fingerprint(after.bullet.content), set()).add(after.slot)
        return after

    def _forget(self, slot: int) -> None:
        stored = self._now.get(slot)
        if stored is not None:
            self._slots_by_id[stored.bullet.id].discard(slot)
            self._slots_by_mark[fingerprint(stored.bullet.content)].discard(slot)

    def _taken(self, bullet_id: str) -> bool:
        return bool(self._slots_by_id.get(bullet_id)) or bool(self.view.named(bullet_id))

    def _first(self, known: Sequence[Stored], touched: Iterable[int]) -> Stored | None:
        """The first of the view's bullets that this draft did not touch and of those it did."""
        untouched = (stored for stored in known if stored.slot not in self._now)
        standing = [*untouched, *(stored for slot in touched if (stored := self._now[slot]))]
        return min(standing, key=lambda stored: stored.slot, default=None)
