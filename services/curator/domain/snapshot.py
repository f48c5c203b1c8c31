"""All bullets of a dataset at one revision, in memory: what readers get and what rules over a whole playbook use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from services.curator.domain.ids import highest_number
from services.curator.domain.log import Change, Stored, fold
from services.curator.domain.playbook import Bullet, Playbook, PlaybookMetadata, fingerprint, utc_now


class Snapshot:
    """A dataset at `revision`; a View for drafts, and the Playbook its readers see.

    `created_at` and `updated_at` may be naive when they were imported so (C-20); they are never compared.
    """

    def __init__(
        self,
        dataset: str,
        revision: int = 0,
        stored: Iterable[Stored] = (),
        *,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> None:
        self.dataset = dataset
        self.revision = revision
        self.created_at = created_at
        self.updated_at = updated_at
        self.slots: Mapping[int, Stored] = {one.slot: one for one in stored}
        self.bullets = len(self.slots)
        self.next_slot = max(self.slots, default=-1) + 1

    def after(self, revision: int, changes: Sequence[Change]) -> Snapshot:
        """The snapshot at `revision`, given the changes since this one."""
        slots = fold(changes, dict(self.slots))
        return Snapshot(self.dataset, revision, slots.values(), created_at=self.created_at, updated_at=self.updated_at)

    @property
    def playbook(self) -> Playbook:
        """The bullets in order, with the metadata of C-05."""
        now = utc_now()
        metadata = PlaybookMetadata(created_at=self.created_at or now, updated_at=self.updated_at or now)
        return Playbook(metadata=metadata, bullets=self.bullet_list)

    @property
    def bullet_list(self) -> list[Bullet]:
        """The bullets in order."""
        return [stored.bullet for stored in self.slots.values()]

    def named(self, bullet_id: str) -> Sequence[Stored]:
        """The bullets with this id, in playbook order."""
        return [stored for stored in self.slots.values() if stored.bullet.id == bullet_id]

    def with_content(self, mark: str) -> Sequence[Stored]:
        """The bullets whose content has this fingerprint, in playbook order."""
        return [stored for stored in self.slots.values() if fingerprint(stored.bullet.content) == mark]

    def everything(self) -> Sequence[Stored]:
        """All bullets in playbook order."""
        return list(self.slots.values())

    def highest_number(self) -> int:
        """The highest number in a bullet's id (C-71)."""
        return highest_number(stored.bullet.id for stored in self.slots.values())

    def removed_after(self, bullet_id: str, revision: int) -> int | None:
        """A snapshot keeps no history: nothing is known to have been removed."""
        return None

    def voted(self, slot: int, trajectory: str, round_: int) -> bool:
        """A snapshot keeps sums, not events: no vote is known."""
        return False
