"""Merge votes and deltas into a playbook that others may have changed meanwhile (C-58 to C-67)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from services.curator.domain.curation import Conflict, Operation, Proposal, Vote, VoteOutcome
from services.curator.domain.draft import Ballot, Draft
from services.curator.domain.log import StoredBullet
from services.curator.domain.playbook import (
    MAX_CONTENT_CHARS,
    MAX_SECTION_CHARS,
    MAX_SOURCES,
    BulletTarget,
    Source,
    find_text_problem,
)

ALREADY_THERE = "the same lesson is already there: {id}"
ALREADY_SERVED = "this lesson was served to the trajectory: {id}"
ALREADY_COUNTED = "already counted for this trajectory and round"
SELF_REPORTED_VOTE = "only the agent itself reports the outcome; the vote is logged and not counted"
UNKNOWN_BULLET = "no bullet has this id"
REMOVED_IN_BATCH = "an earlier delta of this batch removed the bullet"
BULLET_ID_MISSING = "UPDATE and DELETE need a bullet_id"
CONTENT_MISSING = "content is blank"


def count_votes(draft: Draft, votes: Sequence[Vote], *, is_reliable: bool = True) -> list[VoteOutcome]:
    """Count each vote once per (bullet, trajectory, round); an unknown bullet is skipped (C-58, C-59).

    A vote of a trajectory with a self-reported outcome is reported and not counted; the trajectory may vote again when
    its outcome is confirmed.
    """
    draft.read_bullets(vote.bullet_id for vote in votes)
    return [_count_vote(draft, vote, is_reliable) for vote in votes]


def _count_vote(draft: Draft, vote: Vote, is_reliable: bool) -> VoteOutcome:
    stored = draft.find(vote.bullet_id)
    if stored is None:
        return VoteOutcome(vote, applied=False, skipped_reason=UNKNOWN_BULLET)
    if not is_reliable and vote.tag != "neutral":
        return VoteOutcome(vote, applied=False, skipped_reason=SELF_REPORTED_VOTE)
    if draft.has_vote(stored, vote.trajectory, vote.round):
        return VoteOutcome(vote, applied=False, skipped_reason=ALREADY_COUNTED)
    helpful, harmful = int(vote.tag == "helpful"), int(vote.tag == "harmful")
    draft.count_ballot(stored, Ballot(stored.slot, vote.trajectory, vote.round, helpful, harmful, vote.reason))
    return VoteOutcome(vote, applied=True)


@dataclass(frozen=True, slots=True)
class MergeTerms:
    """The terms of a merge.

    `base_revision` is the one that the proposals are based on (None = the newest): an UPDATE or DELETE of a bullet that
    changed since is a conflict. `served` are the ids of bullets that were served to the source trajectory: a lesson
    that repeats one of them is not learned. `find_similar` returns a bullet with nearly the same lesson. `wait_reason`
    returns the reason why an applicable proposal waits for review, or "".
    """

    base_revision: int | None = None
    served: frozenset[str] = frozenset()
    find_similar: Callable[[Draft, str], StoredBullet | None] = lambda draft, content: None
    wait_reason: Callable[[Proposal], str] = lambda proposal: ""


def merge_deltas(draft: Draft, proposals: Sequence[Proposal], terms: MergeTerms | None = None) -> list[Operation]:
    """Apply the proposals one after the other against the draft (C-61)."""
    draft.read_bullets(proposal.delta.bullet_id for proposal in proposals if proposal.delta.bullet_id)
    removed: set[str] = set()
    return [_merge(draft, proposal, terms or MergeTerms(), removed) for proposal in proposals]


def _merge(draft: Draft, proposal: Proposal, terms: MergeTerms, removed: set[str]) -> Operation:
    delta = proposal.delta
    problem = proposal.decline_reason or _describe_bounds(proposal)
    if problem:
        return Operation(proposal, applied=False, bullet_id=delta.bullet_id or "", skipped_reason=problem)
    if delta.type == "ADD":
        return _add(draft, proposal, terms)
    if not delta.bullet_id:
        return Operation(proposal, applied=False, skipped_reason=BULLET_ID_MISSING)
    stored = draft.find(delta.bullet_id)
    conflict = _find_conflict(draft, delta.bullet_id, stored, terms.base_revision, removed)
    if conflict:
        return Operation(proposal, False, delta.bullet_id, skipped_reason=conflict.explanation, conflict=conflict)
    if stored is None:
        reason = REMOVED_IN_BATCH if delta.bullet_id in removed else UNKNOWN_BULLET
        return Operation(proposal, applied=False, bullet_id=delta.bullet_id, skipped_reason=reason)
    wait_reason = proposal.wait_reason or terms.wait_reason(proposal)
    if wait_reason:
        return Operation(proposal, applied=False, bullet_id=delta.bullet_id, wait_reason=wait_reason)
    if delta.type == "DELETE":
        draft.remove(stored)
        removed.add(delta.bullet_id)
    else:
        _update(draft, stored, proposal)
    return Operation(proposal, applied=True, bullet_id=delta.bullet_id)


def _add(draft: Draft, proposal: Proposal, terms: MergeTerms) -> Operation:
    delta = proposal.delta
    duplicate = (
        draft.find_duplicate(delta.content)
        or _find_confirmed(draft, proposal, terms)
        or terms.find_similar(draft, delta.content)
    )
    if duplicate is not None:
        return _repeat(draft, proposal, duplicate, terms)
    wait_reason = proposal.wait_reason or terms.wait_reason(proposal)
    if wait_reason:
        return Operation(proposal, applied=False, wait_reason=wait_reason)
    added = draft.add(
        delta.section,
        delta.content,
        sources=proposal.sources[:MAX_SOURCES],
        target=_choose_target(proposal, None),
        source_trajectory=proposal.sources[0].trajectory if proposal.sources else "",
    )
    return Operation(proposal, applied=True, bullet_id=added.bullet.id)


def _find_confirmed(draft: Draft, proposal: Proposal, terms: MergeTerms) -> StoredBullet | None:
    """Return the confirmed bullet, unless it was removed or changed after the base revision."""
    stored = draft.find(proposal.confirmed_id) if proposal.confirmed_id else None
    if stored is None or (terms.base_revision is not None and draft.find_last_update(stored) > terms.base_revision):
        return None
    return stored


def _repeat(draft: Draft, proposal: Proposal, duplicate: StoredBullet, terms: MergeTerms) -> Operation:
    """Add the sources of a repeated lesson to its bullet, unless the bullet was served to the trajectory.

    A bullet without a target gets that of the lesson.
    """
    twin_id = duplicate.bullet.id
    if twin_id in terms.served:
        return Operation(proposal, False, twin_id, skipped_reason=ALREADY_SERVED.format(id=twin_id))
    sources = join_sources(duplicate.bullet.sources, proposal.sources)
    if sources != duplicate.bullet.sources:
        duplicate = draft.note_sources(duplicate, sources)
    is_free = not (proposal.wait_reason or terms.wait_reason(proposal))
    if proposal.target is not None and duplicate.bullet.target is None and is_free:
        draft.rewrite(duplicate, duplicate.bullet.replace_fields(target=_choose_target(proposal, None)))
    return Operation(proposal, False, twin_id, skipped_reason=ALREADY_THERE.format(id=twin_id))


def _update(draft: Draft, stored: StoredBullet, proposal: Proposal) -> None:
    bullet = stored.bullet
    text = {} if _keeps_text(proposal) else dict.fromkeys(("content", "searchable_text"), proposal.delta.content)
    sources = join_sources(stored.bullet.sources, proposal.sources)
    target = _choose_target(proposal, bullet.target)
    draft.rewrite(stored, bullet.replace_fields(**text, sources=sources, target=target))


def _keeps_text(proposal: Proposal) -> bool:
    """Return True for an UPDATE that changes only the target."""
    delta = proposal.delta
    return delta.type == "UPDATE" and proposal.target is not None and not delta.content.strip()


def _choose_target(proposal: Proposal, present: BulletTarget | None) -> BulletTarget | None:
    """Return the target of a bullet after a proposal: the present one without one, None for an empty expression."""
    if proposal.target is None:
        return present
    return proposal.target if proposal.target.expression else None


def _find_conflict(
    draft: Draft, bullet_id: str, stored: StoredBullet | None, base_revision: int | None, removed: set[str]
) -> Conflict | None:
    if base_revision is None:
        return None
    if stored is not None:
        updated = draft.find_last_update(stored)
        return Conflict(base_revision, updated, stored.bullet) if updated > base_revision else None
    if bullet_id in removed:
        return None
    removal = draft.view.find_removal_after(bullet_id, base_revision)
    return None if removal is None else Conflict(base_revision, removal, None)


def _describe_bounds(proposal: Proposal) -> str:
    """Return the bound that a proposal breaks, or ""."""
    delta = proposal.delta
    if delta.type == "DELETE" or _keeps_text(proposal):
        return ""
    if not delta.content.strip():
        return CONTENT_MISSING
    problem = find_text_problem(delta.content, MAX_CONTENT_CHARS)
    if problem:
        return f"content: {problem}"
    problem = find_text_problem(delta.section, MAX_SECTION_CHARS) if delta.type == "ADD" else ""
    return problem and f"section: {problem}"


def summarize_changes(operations: Iterable[Operation], votes: Iterable[VoteOutcome] = ()) -> str:
    """Return a summary of the changes of a revision: `2 added, 1 vote, ts-00001 confirmed` or `no change`."""
    operations = list(operations)
    types = [operation.delta.type for operation in operations if operation.applied]
    verbs = {"ADD": "added", "UPDATE": "updated", "DELETE": "deleted"}
    parts = [f"{types.count(type_)} {verb}" for type_, verb in verbs.items() if type_ in types]
    if counted := sum(vote.applied for vote in votes):
        parts.append(f"{counted} vote{'' if counted == 1 else 's'}")
    confirmed = dict.fromkeys(
        operation.bullet_id
        for operation in operations
        if operation.bullet_id and operation.skipped_reason == ALREADY_THERE.format(id=operation.bullet_id)
    )
    if confirmed:
        parts.append(f"{', '.join(confirmed)} confirmed")
    return ", ".join(parts) or "no change"


def find_new_texts(proposals: Iterable[Proposal]) -> list[str]:
    """Return the texts that the proposals may add to a playbook."""
    return [
        proposal.delta.content
        for proposal in proposals
        if not (proposal.decline_reason or proposal.confirmed_id or _keeps_text(proposal))
        and proposal.delta.type != "DELETE"
        and not _describe_bounds(proposal)
    ]


def join_sources(sources: tuple[Source, ...], new_sources: tuple[Source, ...]) -> tuple[Source, ...]:
    """Return one source for each trajectory with the steps of both, in order of appearance; at most MAX_SOURCES."""
    joined = (*sources, *new_sources)
    is_new = len({source.trajectory for source in joined}) == len(joined)
    if is_new and all(len({*source.steps}) == len(source.steps) for source in new_sources):
        return joined[:MAX_SOURCES]  # nearly always: the sources of a bullet stay the same objects
    steps: dict[str, tuple[int, ...]] = {}
    for source in joined:
        steps[source.trajectory] = tuple(dict.fromkeys((*steps.get(source.trajectory, ()), *source.steps)))
    return tuple(Source(trajectory=name, steps=numbers) for name, numbers in steps.items())[:MAX_SOURCES]
