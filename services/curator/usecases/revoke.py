"""RevokeTrajectory: everything that came from one trajectory is taken back, as far as nothing else rests on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from services.curator.domain.draft import Draft
from services.curator.domain.log import Change, Origin, Stored
from services.curator.usecases.ports import DatasetTransaction


@dataclass(slots=True)
class Revocation:
    """The blast radius: what changed, or would change.

    `removed` bullets came only from the trajectory; `reverted` ones lost its edits or came back from its removal;
    `entangled` ones were edited by others on top of it, so a person should look at them.
    """

    revision: int = 0
    changes: list[Change] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    reverted: list[str] = field(default_factory=list)
    votes_removed: int = 0
    entangled: list[str] = field(default_factory=list)


def revoke(dataset: DatasetTransaction, trajectory: str, origin: Origin, *, dry_run: bool) -> Revocation:
    """Removes what came only from the trajectory, takes back its votes and edits. A dry run only reports."""
    draft = dataset.draft()
    told = Revocation(revision=dataset.revision)
    own = set(dataset.revisions_of(trajectory))
    touched = {change.slot for changes in dataset.changes_in(sorted(own)).values() for change in changes}
    standing = {stored.slot: stored for stored in dataset.everything()}
    touched |= {slot for slot, stored in standing.items() if stored.bullet.from_trajectory(trajectory)}
    for ballot in dataset.ballots_of(trajectory):
        if ballot.slot in standing:
            standing[ballot.slot] = draft.uncount(standing[ballot.slot], ballot)
            told.votes_removed += 1
    histories = _by_slot(dataset.changes_of(sorted(touched)))
    for slot in sorted(touched):
        if slot in standing:
            _take_back_text(draft, standing[slot], histories.get(slot, []), trajectory, own, told)
        else:
            _take_back_removal(dataset, draft, histories.get(slot, []), trajectory, own, told)
    told.changes = draft.changes
    # Also a revocation without effect is logged: a bullet that comes back later must come without its votes.
    if not dry_run and (own or not draft.empty or dataset.has_voted(trajectory)):
        revoked = replace(origin, source_trajectory=trajectory)
        told.changes = list(dataset.append(draft, revoked, f"revoked trajectory {trajectory}").changes)
        told.revision = dataset.revision
    return told


def _by_slot(changes: Iterable[Change]) -> dict[int, list[Change]]:
    slots: dict[int, list[Change]] = {}
    for change in changes:
        slots.setdefault(change.slot, []).append(change)
    return slots


def _take_back_text(
    draft: Draft, stored: Stored, history: Sequence[Change], trajectory: str, own: set[int], told: Revocation
) -> None:
    """Undoes the trajectory's edits of a bullet that stands, unless someone edited it after that."""
    bullet = stored.bullet
    others = tuple(source for source in bullet.sources if source.trajectory != trajectory)
    edits = [change.after for change in history if change.after and _says_something_new(change)]
    foreign = [edit for edit in edits if edit.touched not in own]
    if not foreign and not others:
        draft.remove(stored)
        told.removed.append(bullet.id)
        return
    if edits and edits[-1].touched in own and foreign:
        earlier = foreign[-1].bullet
        back = bullet.having(content=earlier.content, searchable_text=earlier.searchable_text, section=earlier.section)
        stored = draft.rewrite(stored, back)
        told.reverted.append(bullet.id)
    elif foreign and len(foreign) < len(edits):
        told.entangled.append(bullet.id)
    if others != bullet.sources:
        draft.note_sources(stored, others)


def _says_something_new(change: Change) -> bool:
    before, after = change.before, change.after
    return before is None or after is None or before.bullet.content != after.bullet.content


def _take_back_removal(
    dataset: DatasetTransaction,
    draft: Draft,
    history: Sequence[Change],
    trajectory: str,
    own: set[int],
    told: Revocation,
) -> None:
    """Brings back a bullet that the trajectory removed, with the votes of others, unless its id is in use again."""
    last = history[-1] if history else None
    if last is None or last.before is None or last.after is not None:
        return
    removed_in = dataset.removed_after(last.bullet_id, last.before.touched)
    if removed_in not in own:
        return
    bullet = last.before.bullet
    if draft.find(bullet.id) is not None:
        told.entangled.append(bullet.id)
        return
    sources = tuple(source for source in bullet.sources if source.trajectory != trajectory)
    if bullet.sources and not sources:
        return
    back = draft.bring_back(replace(last.before, bullet=bullet.having(helpful=0, harmful=0, sources=sources)))
    revoked = {trajectory, *dataset.revoked()}
    for ballot in dataset.ballots_withdrawn_since(removed_in - 1):
        if ballot.slot == back.slot and ballot.trajectory not in revoked:
            back = draft.count(back, ballot)
    told.reverted.append(bullet.id)
