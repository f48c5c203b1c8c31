"""What keeps a playbook worth reading: duplicates merge, out-voted bullets retire, the least useful give way.

All rules are deterministic, and all they do is a revision of its own, so it can be looked at and restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.curator.domain.draft import Ballot, Draft
from services.curator.domain.log import Stored
from services.curator.domain.merge import joined_sources
from services.curator.domain.neighbours import Neighbours
from services.curator.domain.playbook import estimated_tokens, fingerprint, shrunken_score
from services.curator.domain.rules import Policy

RETIRED_BY_VOTES = "out-voted: {harmful} harmful, {helpful} helpful"


def out_voted(stored: Stored, policy: Policy) -> bool:
    """Whether the rule of the dataset retires this bullet."""
    bullet = stored.bullet
    limit = policy.retire_after_harmful
    return bool(limit) and not bullet.retired and bullet.harmful >= limit and bullet.harmful > bullet.helpful


def retire(draft: Draft, candidates: Iterable[Stored], policy: Policy) -> list[str]:
    """Retires those candidates that are out-voted; their ids."""
    retired = [stored for stored in candidates if out_voted(stored, policy)]
    for stored in retired:
        bullet = stored.bullet
        reason = RETIRED_BY_VOTES.format(harmful=bullet.harmful, helpful=bullet.helpful)
        draft.rewrite(stored, bullet.having(retired=reason))
    return [stored.bullet.id for stored in retired]


def eviction_order(bullets: Iterable[Stored]) -> list[Stored]:
    """Who gives way first: retired ones, the lowest shrunken score, the fewest trajectories, the longest untouched."""
    return sorted(
        bullets,
        key=lambda stored: (
            not stored.bullet.retired,
            shrunken_score(stored.bullet.helpful, stored.bullet.harmful),
            len(stored.bullet.sources),
            stored.touched,
            stored.slot,
        ),
    )


def evict(draft: Draft, policy: Policy, tokens: int) -> list[str]:
    """Removes bullets in eviction order until the budget holds; their ids. `tokens` is what all bullets have now."""
    excess = max(0, draft.bullets - policy.max_bullets)
    spare = policy.max_tokens - tokens if policy.max_tokens else 0
    if not excess and spare >= 0:
        return []
    evicted: list[str] = []
    for stored in eviction_order(draft.everything()):
        if len(evicted) >= excess and spare >= 0:
            break
        draft.remove(stored)
        evicted.append(stored.bullet.id)
        spare += estimated_tokens(stored.bullet.content)
    return evicted


def merge_duplicates(
    draft: Draft, threshold: float | None, ballots_on: Callable[[int], Iterable[Ballot]]
) -> list[tuple[str, str]]:
    """Merges every bullet into the first earlier one that says the same; pairs of (gone, kept) ids.

    Exact duplicates always; similar ones from `threshold` on (None = never). Votes move as events, so that one that
    both had counts once; provenance is joined.
    """
    merged: list[tuple[str, str]] = []
    kept: dict[int, Stored] = {}
    marks: dict[str, int] = {}
    neighbours = Neighbours()
    for stored in draft.everything():
        mark = fingerprint(stored.bullet.content)
        twin = kept.get(marks.get(mark, -1))
        if twin is None and threshold is not None:
            near, score = neighbours.nearest(stored.bullet.content)
            twin = kept[near.slot] if near is not None and score >= threshold else None
        if twin is None:
            kept[stored.slot] = stored
            marks.setdefault(mark, stored.slot)
            neighbours.put(stored)
        else:
            kept[twin.slot] = absorb(draft, twin, stored, ballots_on(stored.slot))
            merged.append((stored.bullet.id, twin.bullet.id))
    return merged


def absorb(draft: Draft, twin: Stored, other: Stored, ballots: Iterable[Ballot]) -> Stored:
    """`twin` with the votes and the provenance of `other`, which goes."""
    sources = joined_sources(twin.bullet.sources, other.bullet.sources)
    if sources != twin.bullet.sources:
        twin = draft.note_sources(twin, sources)
    draft.remove(other)
    for ballot in ballots:
        if not draft.voted(twin, ballot.trajectory, ballot.round):
            twin = draft.count(
                twin, Ballot(twin.slot, ballot.trajectory, ballot.round, ballot.helpful, ballot.harmful, ballot.reason)
            )
    return twin
