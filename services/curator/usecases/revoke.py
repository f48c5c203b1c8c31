"""RevokeTrajectory: undo the bullets, edits and votes of one trajectory that nothing else supports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from services.curator.domain.log import Origin, SlotChange, StoredBullet
from services.curator.domain.playbook import Bullet, Source
from services.curator.usecases.ports import DatasetTransaction


@dataclass(slots=True)
class Revocation:
    """The effect of a revocation.

    `removed` bullets came only from the trajectory; `reverted` ones lost its edits or are restored after its removal;
    `entangled` ones were edited by others after it, so that a person should check them.
    """

    revision: int = 0
    changes: list[SlotChange] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    reverted: list[str] = field(default_factory=list)
    votes_removed: int = 0
    entangled: list[str] = field(default_factory=list)


def revoke(dataset: DatasetTransaction, trajectory: str, origin: Origin, *, dry_run: bool) -> Revocation:
    """Remove bullets that came only from the trajectory; undo its votes and edits. A dry run changes nothing."""
    return _Revoker(dataset, trajectory).revoke(origin, dry_run=dry_run)


class _Revoker:
    def __init__(self, dataset: DatasetTransaction, trajectory: str) -> None:
        self.dataset = dataset
        self.draft = dataset.create_draft()
        self.trajectory = trajectory
        self.revisions = set(dataset.find_revisions(trajectory))
        self.revocation = Revocation(revision=dataset.revision)

    def revoke(self, origin: Origin, *, dry_run: bool) -> Revocation:
        """Undo the edits and the votes of the trajectory; append them as a revision unless `dry_run`."""
        dataset, revocation = self.dataset, self.revocation
        bullets = {stored.slot: stored for stored in dataset.list_bullets()}
        slots = {change.slot for change in dataset.list_changes_in(sorted(self.revisions))}
        slots |= {slot for slot, stored in bullets.items() if stored.bullet.is_from_trajectory(self.trajectory)}
        for ballot in dataset.find_ballots(self.trajectory):
            if ballot.slot in bullets:
                bullets[ballot.slot] = self.draft.withdraw_ballot(bullets[ballot.slot], ballot)
                revocation.votes_removed += 1
        histories: defaultdict[int, list[SlotChange]] = defaultdict(list)
        for change in dataset.find_changes(sorted(slots)):
            histories[change.slot].append(change)
        for slot in sorted(slots):
            if slot in bullets:
                self._undo_edits(bullets[slot], histories[slot])
            else:
                self._undo_removal(histories[slot])
        revocation.changes = self.draft.changes
        records = [record for record in dataset.load_evidence().values() if self.trajectory in record.trajectories]
        # A revocation without effect is logged too: a bullet that is restored later must not get its votes back.
        has_trace = self.revisions or records or not self.draft.is_empty or dataset.has_votes_of(self.trajectory)
        if not dry_run:
            dataset.store_evidence(record.drop_trajectory(self.trajectory) for record in records)
        if has_trace and not dry_run:
            origin = replace(origin, source_trajectory=self.trajectory)
            revision = dataset.append(self.draft, origin, f"revoked trajectory {self.trajectory}")
            revocation.changes, revocation.revision = list(revision.changes), dataset.revision
        return revocation

    def _undo_edits(self, stored: StoredBullet, history: Sequence[SlotChange]) -> None:
        """Undo the trajectory's edits of a bullet, unless another author edited it afterwards."""
        bullet = stored.bullet
        other_sources = self._find_other_sources(bullet)
        edits = [change.after for change in history if change.after and _changes_content(change)]
        other_edits = [edit for edit in edits if edit.touched_revision not in self.revisions]
        if not other_edits and not other_sources:
            self.draft.remove(stored)
            self.revocation.removed.append(bullet.id)
            return
        if other_edits and edits[-1].touched_revision in self.revisions:
            last = other_edits[-1].bullet
            stored = self.draft.rewrite(
                stored,
                bullet.replace_fields(
                    content=last.content,
                    searchable_text=last.searchable_text,
                    section=last.section,
                    target=last.target,
                ),
            )
            self.revocation.reverted.append(bullet.id)
        elif other_edits and len(other_edits) < len(edits):
            self.revocation.entangled.append(bullet.id)
        if other_sources != bullet.sources:
            self.draft.note_sources(stored, other_sources)

    def _undo_removal(self, history: Sequence[SlotChange]) -> None:
        """Restore a bullet that the trajectory removed, with the votes of others, unless its id is used again."""
        last = history[-1] if history else None
        if last is None or last.before is None or last.after is not None:
            return
        removal = self.dataset.find_removal_after(last.bullet_id, last.before.touched_revision)
        if removal not in self.revisions:
            return
        bullet = last.before.bullet
        if self.draft.find(bullet.id) is not None:
            self.revocation.entangled.append(bullet.id)
            return
        sources = self._find_other_sources(bullet)
        if bullet.sources and not sources:
            return
        without_votes = bullet.replace_fields(helpful=0, harmful=0, sources=sources)
        restored = self.draft.bring_back(replace(last.before, bullet=without_votes))
        revoked = {self.trajectory, *self.dataset.list_revoked_trajectories()}
        for ballot in self.dataset.list_ballots_withdrawn_since(removal - 1):
            if ballot.slot == restored.slot and ballot.trajectory not in revoked:
                restored = self.draft.count_ballot(restored, ballot)
        self.revocation.reverted.append(bullet.id)

    def _find_other_sources(self, bullet: Bullet) -> tuple[Source, ...]:
        return tuple(source for source in bullet.sources if source.trajectory != self.trajectory)


def _changes_content(change: SlotChange) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return (before.bullet.content, before.bullet.target) != (after.bullet.content, after.bullet.target)
