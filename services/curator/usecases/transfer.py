"""Import and export of whole playbooks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.curator.domain.draft import Ballot
from services.curator.domain.log import Origin, StoredBullet
from services.curator.domain.playbook import Bullet, Playbook
from services.curator.usecases.commit import enforce_policy
from services.curator.usecases.ports import DatasetTransaction

PART_BULLETS = 500
"""Bullets that one commit imports, so that other writes wait for no whole file."""
MAX_FILE_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 512 * 1024


@dataclass(slots=True)
class ImportResult:
    """The outcome of an import; `revision` is the newest one, upkeep included."""

    revision: int = 0
    added: int = 0
    updated: int = 0
    removed: int = 0


def split_import(playbook: Playbook, *, is_whole: bool) -> list[Playbook]:
    """Return the parts of an import, one for each commit; a single one if `is_whole` or if ids repeat."""
    bullets = playbook.bullets
    if is_whole or len(bullets) <= PART_BULLETS or len({bullet.id for bullet in bullets}) < len(bullets):
        return [playbook]
    starts = range(0, len(bullets), PART_BULLETS)
    return [playbook.model_copy(update={"bullets": bullets[start : start + PART_BULLETS]}) for start in starts]


def import_playbook(dataset: DatasetTransaction, playbook: Playbook, origin: Origin, *, replace: bool) -> ImportResult:
    """Replace the bullets by those of the playbook, or add and update its bullets by id, as one revision.

    Then enforce the policy of the dataset. The counters of a new bullet are one vote event, cast by the import. Without
    `replace` the votes of present bullets stay; with it their counters become those of the playbook.
    """
    return _Import(dataset, f"import:{origin.request_id}").run(playbook, origin, replace=replace)


class _Import:
    def __init__(self, dataset: DatasetTransaction, voter: str) -> None:
        self.dataset = dataset
        self.draft = dataset.create_draft()
        self.voter = voter
        self.result = ImportResult()
        self.bullets_by_id: defaultdict[str, list[StoredBullet]] = defaultdict(list)

    def run(self, playbook: Playbook, origin: Origin, *, replace: bool) -> ImportResult:
        result = self.result
        self._read_bullets(playbook.bullets, all_of_them=replace)
        if replace:
            self._replace_all(playbook.bullets)
        else:
            for bullet in playbook.bullets:
                same_id = self.bullets_by_id[bullet.id]
                if same_id:
                    self._update(same_id.pop(0), bullet)
                else:
                    self._add(bullet)
        if self.dataset.revision == 0 or replace:
            self.dataset.set_created_at(playbook.metadata.created_at)
        if not self.draft.is_empty:
            summary = f"imported: {result.added} added, {result.updated} updated, {result.removed} removed"
            changed_bullets = [change.after for change in self.draft.changes if change.after]
            self.dataset.append(self.draft, origin, summary)
            enforce_policy(self.dataset, self.dataset.policy, changed_bullets)
        result.revision = self.dataset.revision
        return result

    def _read_bullets(self, bullets: Sequence[Bullet], *, all_of_them: bool) -> None:
        """Read the present bullets: all of them, or those with the ids of `bullets`."""
        if all_of_them:
            present = self.dataset.list_bullets()
        elif self.dataset.bullets:
            present = self.dataset.find_bullets_with_ids(list({bullet.id for bullet in bullets}))
        else:
            present = []
        for stored in present:
            self.bullets_by_id[stored.bullet.id].append(stored)

    def _replace_all(self, bullets: Sequence[Bullet]) -> None:
        """Replace all bullets; those at the start whose order is unchanged keep their slots."""
        last = -1
        retained: set[int] = set()
        is_in_order = True
        for bullet in bullets:
            same_id = self.bullets_by_id[bullet.id]
            is_in_order = is_in_order and bool(same_id) and same_id[0].slot > last
            if is_in_order:
                stored = same_id.pop(0)
                last = stored.slot
                retained.add(last)
                self._replace_votes(self._update(stored, bullet), bullet)
            else:
                self._add(bullet)
        for stored in self.dataset.list_bullets():
            if stored.slot not in retained:
                self.draft.remove(stored)
                self.result.removed += 1

    def _add(self, bullet: Bullet) -> None:
        stored = self.draft.insert(bullet)
        self.result.added += 1
        if bullet.helpful or bullet.harmful:
            self._count_votes(stored, bullet)

    def _update(self, stored: StoredBullet, bullet: Bullet) -> StoredBullet:
        """Replace the fields that the imported bullet has, its votes excepted."""
        fields = bullet.model_fields_set - {"helpful", "harmful"}
        updated = stored.bullet.replace_fields(**{name: getattr(bullet, name) for name in fields})
        if updated == stored.bullet:
            return stored
        self.result.updated += 1
        return self.draft.rewrite(stored, updated)

    def _replace_votes(self, stored: StoredBullet, bullet: Bullet) -> None:
        """Replace the vote events by one event of the import if the imported counters differ."""
        if (stored.bullet.helpful, stored.bullet.harmful) == (bullet.helpful, bullet.harmful):
            return
        for ballot in self.dataset.list_ballots_on(stored.slot):
            stored = self.draft.withdraw_ballot(stored, ballot)
        self._count_votes(stored, bullet)

    def _count_votes(self, stored: StoredBullet, bullet: Bullet) -> None:
        self.draft.count_ballot(stored, Ballot(stored.slot, self.voter, 0, bullet.helpful, bullet.harmful))


def split_chunks(text: str, most: int) -> Iterable[bytes]:
    """Return the text as UTF-8 in parts of at most CHUNK_BYTES and of at most `most` bytes."""
    content = text.encode("utf-8")
    size = min(CHUNK_BYTES, most)
    return (content[start : start + size] for start in range(0, len(content), size))
