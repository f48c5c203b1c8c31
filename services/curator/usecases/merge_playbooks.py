"""MergePlaybooks: add the bullets of other datasets to one, and report conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from services.curator.domain.draft import Draft
from services.curator.domain.log import Origin, StoredBullet
from services.curator.domain.merge import join_sources
from services.curator.domain.playbook import Bullet
from services.curator.domain.word_neighbours import WordNeighbours
from services.curator.domain.word_similarity import WORDS
from services.curator.usecases.commit import enforce_policy
from services.curator.usecases.ports import DatasetTransaction

SAME_ID = "both have this id, with different texts"
CONTRADICTION = "both are about the same subject, one of them with a negation"


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """Two bullets that a merge could not unite: `incoming_bullet` was added, as `new_id`."""

    existing_bullet: Bullet
    incoming_bullet: Bullet
    from_dataset: str
    new_id: str
    reason: str


@dataclass(slots=True)
class MergeResult:
    """The outcome of a merge."""

    revision: int = 0
    added: int = 0
    merged: int = 0
    conflicts: list[MergeConflict] = field(default_factory=list)


def merge_playbooks(
    dataset: DatasetTransaction, from_datasets: Sequence[str], threshold: float | None, origin: Origin
) -> MergeResult:
    """Add the bullets of other datasets, in their order; a bullet that is already there gets their votes and sources.

    Votes are merged as events, so that a vote on both counts once and a repeated merge changes nothing. `threshold` is
    the similarity from which two bullets are the same lesson (None = exact duplicates only).
    """
    draft = dataset.create_draft()
    result = MergeResult()
    neighbours = WordNeighbours(draft.list_bullets())
    for name in from_datasets:
        for theirs, ballots in dataset.list_bullets_with_ballots(name):
            stored = _merge_bullet(draft, theirs.bullet, neighbours, name, threshold, result)
            for ballot in ballots:
                if not draft.has_vote(stored, ballot.trajectory, ballot.round):
                    stored = draft.count_ballot(stored, replace(ballot, slot=stored.slot))
            neighbours.put(stored)
    if not draft.is_empty:
        names = ", ".join(from_datasets)
        dataset.append(draft, origin, f"merged {names}: {result.added} added, {result.merged} merged")
        enforce_policy(dataset, dataset.policy, [])
    result.revision = dataset.revision
    return result


def _merge_bullet(
    draft: Draft, theirs: Bullet, neighbours: WordNeighbours, name: str, threshold: float | None, result: MergeResult
) -> StoredBullet:
    """Return the duplicate of `theirs`, with its sources, or a new bullet."""
    nearest, score = neighbours.find_nearest(theirs.content)
    duplicate = draft.find_duplicate(theirs.content)
    if duplicate is None and nearest is not None and threshold is not None and score >= threshold:
        duplicate = nearest
    if duplicate is not None:
        result.merged += 1
        if duplicate.bullet.target is None and theirs.target is not None:
            duplicate = draft.rewrite(duplicate, duplicate.bullet.replace_fields(target=theirs.target))
        sources = join_sources(duplicate.bullet.sources, theirs.sources)
        return draft.note_sources(duplicate, sources) if sources != duplicate.bullet.sources else duplicate
    result.added += 1
    ours = draft.find(theirs.id)
    if ours is None:
        stored = draft.insert(theirs)
    else:
        fields = theirs.model_dump(exclude={"id", "section", "content", "helpful", "harmful", "confidence_score"})
        stored = draft.add(
            theirs.section, theirs.content, **fields | {"sources": theirs.sources, "target": theirs.target}
        )
        result.conflicts.append(MergeConflict(ours.bullet, theirs, name, stored.bullet.id, SAME_ID))
        return stored
    if nearest is not None and WORDS.contradicts(nearest.bullet.content, theirs.content):
        result.conflicts.append(MergeConflict(nearest.bullet, theirs, name, stored.bullet.id, CONTRADICTION))
    return stored
