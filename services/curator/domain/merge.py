"""How votes and deltas change a playbook (C-58 to C-67), also when others changed it meanwhile (ideas 2 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from services.curator.domain.curation import Conflict, DeltaContextItem, Operation, Proposal, Vote, VoteOutcome
from services.curator.domain.draft import Ballot, Draft
from services.curator.domain.log import Stored
from services.curator.domain.playbook import MAX_CONTENT_CHARS, MAX_SECTION_CHARS, MAX_SOURCES, Source, text_problem

ALREADY_THERE = "the same lesson is already there: {id}"
ALREADY_SERVED = "the trajectory was given this lesson itself: {id}"
ALREADY_COUNTED = "already counted for this trajectory and round"
OWN_WORD_IS_NO_VOTE = "only the agent's own word says how the run ended; the vote is kept here and not counted"
UNKNOWN_BULLET = "no bullet has this id"
REMOVED_IN_BATCH = "an earlier delta of this batch removed the bullet"
BULLET_ID_MISSING = "UPDATE and DELETE need a bullet_id"
CONTENT_MISSING = "content is blank"


def count_votes(draft: Draft, votes: Sequence[Vote], *, reliable: bool = True) -> list[VoteOutcome]:
    """Counts each vote once per (bullet, trajectory, round); an unknown bullet is skipped (C-58, C-59).

    A vote of a run that alone says how it ended is told and not counted, so that the trajectory may still vote once
    something reliable says how it ended.
    """
    return [_count(draft, vote, reliable) for vote in votes]


def _count(draft: Draft, vote: Vote, reliable: bool) -> VoteOutcome:
    stored = draft.find(vote.bullet_id)
    if stored is None:
        return VoteOutcome(vote, applied=False, skipped=UNKNOWN_BULLET)
    if not reliable and vote.tag != "neutral":
        return VoteOutcome(vote, applied=False, skipped=OWN_WORD_IS_NO_VOTE)
    if draft.voted(stored, vote.trajectory, vote.round):
        return VoteOutcome(vote, applied=False, skipped=ALREADY_COUNTED)
    helpful, harmful = int(vote.tag == "helpful"), int(vote.tag == "harmful")
    draft.count(stored, Ballot(stored.slot, vote.trajectory, vote.round, helpful, harmful, vote.reason))
    return VoteOutcome(vote, applied=True)


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms proposals are merged.

    `base` is the revision they were made against (None = the newest): an UPDATE or DELETE of a bullet that changed
    since is a conflict. `served` are ids of bullets the source trajectory was given: a lesson that repeats one of them
    is not learned. `similar` finds a bullet that says nearly the same. `waits` says why a proposal that would apply
    has to wait for review, empty if it has not.
    """

    base: int | None = None
    served: frozenset[str] = frozenset()
    similar: Callable[[Draft, str], Stored | None] = lambda draft, content: None
    waits: Callable[[Proposal], str] = lambda proposal: ""


def merge_deltas(draft: Draft, proposals: Sequence[Proposal], terms: Terms | None = None) -> list[Operation]:
    """Applies the proposals one after the other against the draft (C-61)."""
    removed: set[str] = set()
    return [_merge(draft, proposal, terms or Terms(), removed) for proposal in proposals]


def _merge(draft: Draft, proposal: Proposal, terms: Terms, removed: set[str]) -> Operation:
    delta = proposal.delta
    problem = proposal.declined or _out_of_bounds(delta)
    if problem:
        return Operation(proposal, applied=False, bullet_id=delta.bullet_id or "", skipped=problem)
    if delta.type == "ADD":
        return _add(draft, proposal, terms)
    if not delta.bullet_id:
        return Operation(proposal, applied=False, skipped=BULLET_ID_MISSING)
    stored = draft.find(delta.bullet_id)
    conflict = _conflict(draft, delta.bullet_id, stored, terms.base, removed)
    if conflict:
        return Operation(proposal, False, delta.bullet_id, skipped=conflict.explained, conflict=conflict)
    if stored is None:
        reason = REMOVED_IN_BATCH if delta.bullet_id in removed else UNKNOWN_BULLET
        return Operation(proposal, applied=False, bullet_id=delta.bullet_id, skipped=reason)
    waits = proposal.waits or terms.waits(proposal)
    if waits:
        return Operation(proposal, applied=False, bullet_id=delta.bullet_id, waits=waits)
    if delta.type == "DELETE":
        draft.remove(stored)
        removed.add(delta.bullet_id)
    else:
        _update(draft, stored, proposal)
    return Operation(proposal, applied=True, bullet_id=delta.bullet_id)


def _add(draft: Draft, proposal: Proposal, terms: Terms) -> Operation:
    delta = proposal.delta
    twin = draft.twin(delta.content) or _confirmed(draft, proposal, terms) or terms.similar(draft, delta.content)
    if twin is not None:
        return _repeat(draft, proposal, twin, terms)
    waits = proposal.waits or terms.waits(proposal)
    if waits:
        return Operation(proposal, applied=False, waits=waits)
    added = draft.add(
        delta.section,
        delta.content,
        sources=proposal.sources[:MAX_SOURCES],
        source_trajectory=proposal.sources[0].trajectory if proposal.sources else "",
    )
    return Operation(proposal, applied=True, bullet_id=added.bullet.id)


def _confirmed(draft: Draft, proposal: Proposal, terms: Terms) -> Stored | None:
    """The bullet that says the same, unless it was removed or reworded after the curator read it."""
    stored = draft.find(proposal.confirms) if proposal.confirms else None
    if stored is None or (terms.base is not None and draft.updated_before(stored) > terms.base):
        return None
    return stored


def _repeat(draft: Draft, proposal: Proposal, twin: Stored, terms: Terms) -> Operation:
    """An ADD of what is there already: its trajectory is noted, unless it only echoes what it was given."""
    twin_id = twin.bullet.id
    if twin_id in terms.served:
        return Operation(proposal, False, twin_id, skipped=ALREADY_SERVED.format(id=twin_id))
    sources = joined_sources(twin.bullet.sources, proposal.sources)
    if sources != twin.bullet.sources:
        draft.note_sources(twin, sources)
    return Operation(proposal, False, twin_id, skipped=ALREADY_THERE.format(id=twin_id))


def _update(draft: Draft, stored: Stored, proposal: Proposal) -> None:
    content = proposal.delta.content
    sources = joined_sources(stored.bullet.sources, proposal.sources)
    draft.rewrite(stored, stored.bullet.having(content=content, searchable_text=content, sources=sources))


def _conflict(
    draft: Draft, bullet_id: str, stored: Stored | None, base: int | None, removed: set[str]
) -> Conflict | None:
    if base is None:
        return None
    if stored is not None:
        updated = draft.updated_before(stored)
        return Conflict(base, updated, stored.bullet) if updated > base else None
    if bullet_id in removed:
        return None
    gone = draft.view.removed_after(bullet_id, base)
    return None if gone is None else Conflict(base, gone, None)


def _out_of_bounds(delta: DeltaContextItem) -> str:
    """Why the delta cannot enter a playbook whatever its state; empty when it can."""
    if delta.type == "DELETE":
        return ""
    if not delta.content.strip():
        return CONTENT_MISSING
    problem = text_problem(delta.content, MAX_CONTENT_CHARS)
    if problem:
        return f"content: {problem}"
    problem = text_problem(delta.section, MAX_SECTION_CHARS) if delta.type == "ADD" else ""
    return problem and f"section: {problem}"


def new_texts(proposals: Iterable[Proposal]) -> list[str]:
    """The texts that the proposals would bring into a playbook, as they are searched; none that is there already."""
    deltas = (one.delta for one in proposals if not (one.declined or one.confirms))
    return [delta.content for delta in deltas if delta.type != "DELETE" and not _out_of_bounds(delta)]


def joined_sources(known: tuple[Source, ...], new: tuple[Source, ...]) -> tuple[Source, ...]:
    """Both, one entry per trajectory with the steps of both, in the order they came; at most MAX_SOURCES."""
    joined: dict[str, Source] = {}
    for source in (*known, *new):
        first = joined.get(source.trajectory)
        steps = source.steps if first is None else (*first.steps, *source.steps)
        distinct = tuple(dict.fromkeys(steps))
        unchanged = first if first is not None and first.steps == distinct else source
        joined[source.trajectory] = (
            unchanged if unchanged.steps == distinct else Source(trajectory=source.trajectory, steps=distinct)
        )
    return tuple(joined.values())[:MAX_SOURCES]
