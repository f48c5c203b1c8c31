"""Apply the policy of a dataset: merge duplicates, retire outvoted bullets, evict the least useful ones.

The rules are deterministic, and their changes are a revision of their own, which can be shown and undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from libs.llm.tokens import estimate_tokens
from services.curator.domain.draft import Ballot, Draft
from services.curator.domain.log import StoredBullet
from services.curator.domain.merge import join_sources
from services.curator.domain.playbook import compute_shrunken_score, hash_content
from services.curator.domain.policy import Policy
from services.curator.domain.word_neighbours import WordNeighbours

RETIRED_BY_VOTES = "outvoted: {harmful} harmful, {helpful} helpful"


def is_outvoted(stored: StoredBullet, policy: Policy) -> bool:
    """Return True if the policy retires this bullet."""
    bullet = stored.bullet
    limit = policy.retire_after_harmful
    return bool(limit) and not bullet.retired and bullet.harmful >= limit and bullet.harmful > bullet.helpful


def retire(draft: Draft, candidates: Iterable[StoredBullet], policy: Policy) -> list[str]:
    """Retire the outvoted candidates and return their ids."""
    retired = [stored for stored in candidates if is_outvoted(stored, policy)]
    for stored in retired:
        bullet = stored.bullet
        reason = RETIRED_BY_VOTES.format(harmful=bullet.harmful, helpful=bullet.helpful)
        draft.rewrite(stored, bullet.replace_fields(retired=reason))
    return [stored.bullet.id for stored in retired]


def sort_for_eviction(bullets: Iterable[StoredBullet]) -> list[StoredBullet]:
    """Sort for eviction: retired bullets, lowest shrunken score, fewest sources, longest unchanged first."""
    return sorted(
        bullets,
        key=lambda stored: (
            not stored.bullet.retired,
            compute_shrunken_score(stored.bullet.helpful, stored.bullet.harmful),
            len(stored.bullet.sources),
            stored.touched_revision,
            stored.slot,
        ),
    )


def evict(draft: Draft, policy: Policy, tokens: int) -> list[str]:
    """Remove bullets in eviction order until the limits hold, and return their ids; `tokens` is the present sum."""
    excess = max(0, draft.bullets - policy.max_bullets)
    spare = policy.max_tokens - tokens if policy.max_tokens else 0
    if not excess and spare >= 0:
        return []
    evicted: list[str] = []
    for stored in sort_for_eviction(draft.list_bullets()):
        if len(evicted) >= excess and spare >= 0:
            break
        draft.remove(stored)
        evicted.append(stored.bullet.id)
        spare += estimate_tokens(stored.bullet.content)
    return evicted


def merge_duplicates(
    draft: Draft, threshold: float | None, list_ballots_on: Callable[[int], Iterable[Ballot]]
) -> list[tuple[str, str]]:
    """Merge every bullet into the first earlier one with the same lesson; return pairs of (removed, remaining) ids.

    Similar bullets are merged from `threshold` on (None = never). Votes move as events, so that a vote on both counts
    once.
    """
    merged: list[tuple[str, str]] = []
    remaining: dict[int, StoredBullet] = {}
    slots: dict[str, int] = {}
    neighbours = WordNeighbours()
    for stored in draft.list_bullets():
        mark = hash_content(stored.bullet.content)
        duplicate = remaining.get(slots.get(mark, -1))
        if duplicate is None and threshold is not None:
            near, score = neighbours.find_nearest(stored.bullet.content)
            duplicate = remaining[near.slot] if near is not None and score >= threshold else None
        if duplicate is None:
            remaining[stored.slot] = stored
            slots.setdefault(mark, stored.slot)
            neighbours.put(stored)
        else:
            remaining[duplicate.slot] = absorb(draft, duplicate, stored, list_ballots_on(stored.slot))
            merged.append((stored.bullet.id, duplicate.bullet.id))
    return merged


def absorb(draft: Draft, duplicate: StoredBullet, other: StoredBullet, ballots: Iterable[Ballot]) -> StoredBullet:
    """Remove `other` and add its votes and sources to `duplicate`; return `duplicate`."""
    sources = join_sources(duplicate.bullet.sources, other.bullet.sources)
    if sources != duplicate.bullet.sources:
        duplicate = draft.note_sources(duplicate, sources)
    draft.remove(other)
    for ballot in ballots:
        if not draft.has_vote(duplicate, ballot.trajectory, ballot.round):
            duplicate = draft.count_ballot(
                duplicate,
                Ballot(duplicate.slot, ballot.trajectory, ballot.round, ballot.helpful, ballot.harmful, ballot.reason),
            )
    return duplicate
