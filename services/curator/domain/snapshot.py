"""All bullets of a dataset at one revision, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from services.curator.domain.log import SlotChange, StoredBullet, fold, join_by_id
from services.curator.domain.playbook import Bullet, Playbook, PlaybookMetadata, utc_now


class Snapshot:
    """A dataset at `revision`.

    `stored` are the bullets in playbook order, or these by slot, which nobody changes any more.
    `created_at` and `updated_at` may be naive if they were imported so (C-20); they are never compared. `committed_at`
    is the time of the commit of `revision`, None if it is not known. Revisions before `deleted_revision` are erased.
    """

    def __init__(
        self,
        dataset: str,
        revision: int = 0,
        stored: Mapping[int, StoredBullet] | Iterable[StoredBullet] = (),
        *,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        committed_at: datetime | None = None,
        deleted_revision: int = 0,
        first_revision: int = 1,
    ) -> None:
        self.dataset = dataset
        self.revision = revision
        self.created_at = created_at
        self.updated_at = updated_at
        self.committed_at = committed_at
        self.deleted_revision = deleted_revision
        self.first_revision = first_revision
        self.slots = stored if isinstance(stored, Mapping) else {bullet.slot: bullet for bullet in stored}
        self.bullets = len(self.slots)

    def advance(self, revision: int, changes: Iterable[SlotChange], committed_at: datetime | None = None) -> Snapshot:
        """Return the snapshot at `revision` from the changes since this one."""
        return Snapshot(
            self.dataset,
            revision,
            fold(changes, self.slots),
            created_at=self.created_at,
            updated_at=committed_at or self.updated_at,
            committed_at=committed_at,
            deleted_revision=self.deleted_revision,
            first_revision=self.first_revision,
        )

    @property
    def playbook(self) -> Playbook:
        """Return the bullets in order, with the times of creation and change (C-05)."""
        now = utc_now()
        metadata = PlaybookMetadata(created_at=self.created_at or now, updated_at=self.updated_at or now)
        return Playbook(metadata=metadata, bullets=self.bullet_list)

    @property
    def bullet_list(self) -> list[Bullet]:
        """Return the bullets in order."""
        return [stored.bullet for stored in self.slots.values()]

    def list_bullets(self) -> Sequence[StoredBullet]:
        """Return all bullets in playbook order."""
        return list(self.slots.values())


def compare_snapshots(before: Snapshot, after: Snapshot) -> list[SlotChange]:
    """Return the bullets that differ, in playbook order of `after`, removed ones last; either may be the newer."""
    changes = [
        SlotChange(slot, before.slots.get(slot), stored, position)
        for position, (slot, stored) in enumerate(after.slots.items())
    ]
    removed = [
        SlotChange(slot, stored, None, position)
        for position, (slot, stored) in enumerate(before.slots.items())
        if slot not in after.slots
    ]
    return join_by_id([*changes, *removed])
