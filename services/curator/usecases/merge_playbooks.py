"""MergePlaybooks: several playbooks become one, and what could not be made one is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from services.curator.domain.draft import Draft
from services.curator.domain.log import Origin, Stored
from services.curator.domain.merge import joined_sources
from services.curator.domain.neighbours import Neighbours
from services.curator.domain.playbook import Bullet
from services.curator.domain.word_similarity import WORDS
from services.curator.usecases.commit import keep_house
from services.curator.usecases.ports import DatasetTransaction

SAME_ID = "both have this id, with different texts"
CONTRADICTION = "both speak of the same thing, one of them with a negation"


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """Two bullets that a merge could not make one: `theirs` was added, as `new_id`."""

    ours: Bullet
    theirs: Bullet
    from_dataset: str
    new_id: str
    reason: str


@dataclass(slots=True)
class Merged:
    """What a merge did."""

    revision: int = 0
    added: int = 0
    merged: int = 0
    conflicts: list[MergeConflict] = field(default_factory=list)


def merge_playbooks(
    dataset: DatasetTransaction, from_datasets: Sequence[str], threshold: float | None, origin: Origin
) -> Merged:
    """Adds the bullets of other datasets, in their order; a bullet that is there already gets their votes and sources.

    Votes come as events, so one that both had counts once, and merging again changes nothing. `threshold` is the
    similarity from which two bullets are the same lesson (None = exact duplicates only).
    """
    draft = dataset.draft()
    told = Merged()
    neighbours = Neighbours(draft.everything())
    for name in from_datasets:
        for theirs, ballots in dataset.foreign(name):
            stored = _take_in(draft, theirs.bullet, neighbours, name, threshold, told)
            for ballot in ballots:
                if not draft.voted(stored, ballot.trajectory, ballot.round):
                    stored = draft.count(stored, replace(ballot, slot=stored.slot))
            neighbours.put(stored)
    if not draft.empty:
        names = ", ".join(from_datasets)
        dataset.append(draft, origin, f"merged {names}: {told.added} added, {told.merged} merged")
        keep_house(dataset, dataset.policy, [])
    told.revision = dataset.revision
    return told


def _take_in(
    draft: Draft, theirs: Bullet, neighbours: Neighbours, name: str, threshold: float | None, told: Merged
) -> Stored:
    """The bullet that now stands for `theirs`: its twin, or a new one."""
    near, score = neighbours.nearest(theirs.content)
    twin = draft.twin(theirs.content)
    if twin is None and near is not None and threshold is not None and score >= threshold:
        twin = near
    if twin is not None:
        told.merged += 1
        sources = joined_sources(twin.bullet.sources, theirs.sources)
        return draft.note_sources(twin, sources) if sources != twin.bullet.sources else twin
    told.added += 1
    ours = draft.find(theirs.id)
    stored = _added(draft, theirs, taken=ours is not None)
    if ours is not None:
        told.conflicts.append(MergeConflict(ours.bullet, theirs, name, stored.bullet.id, SAME_ID))
    elif near is not None and WORDS.contradicts(near.bullet.content, theirs.content):
        told.conflicts.append(MergeConflict(near.bullet, theirs, name, stored.bullet.id, CONTRADICTION))
    return stored


def _added(draft: Draft, bullet: Bullet, *, taken: bool) -> Stored:
    if not taken:
        return draft.place(bullet)
    return draft.add(
        bullet.section,
        bullet.content,
        searchable_text=bullet.searchable_text,
        keywords=bullet.keywords,
        source_trajectory=bullet.source_trajectory,
        sources=bullet.sources,
        retired=bullet.retired,
    )
