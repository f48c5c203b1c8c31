"""Proposals by rules, without a model: add what is new, improve what says it worse, remove what is contradicted.

Deterministic: the same playbook and reflection give the same proposals, each with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.curator.domain.curation import (
    DeltaContextItem,
    DeltaType,
    Insight,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.log import Stored
from services.curator.domain.playbook import Bullet, Source, fingerprint
from services.curator.domain.similarity import SAME_SUBJECT, contradict, nearest, similarity, weights
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.curate import Proposed

# From this cosine on two lessons are the same lesson in other words.
SAME_LESSON = 0.8
# A bullet needs this many harmful votes before a contradiction removes it.
OUT_VOTED = 2
# A text replaces another one when it says at least this share more.
SAYS_MORE = 1.25
DEFAULT_SECTION = "others"


class RuleCurator:
    """Curation by the similarity of texts; `model` is what a revision says of it."""

    model = "offline"

    async def propose(
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> Proposed:
        """One proposal per insight, and removals of bullets that the insights contradict and votes turned against."""
        proposals = await asyncio.to_thread(_proposals, reflection, playbook, sections)
        return Proposed(tuple(proposals), threshold=SAME_LESSON)


def _proposals(reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]) -> list[Proposal]:
    stored = playbook.everything()
    removals = _contradicted(reflection, stored)
    gone = {proposal.delta.bullet_id for proposal in removals}
    standing = [one for one in stored if one.bullet.id not in gone]
    proposals: list[Proposal] = []
    seen: set[str] = set()
    for insight in reflection.insights:
        mark = fingerprint(insight.key_insight)
        if insight.key_insight.strip() and mark not in seen:
            seen.add(mark)
            proposals.append(_proposal(reflection, insight, standing, sections))
    return [*removals, *proposals]


def _proposal(
    reflection: Reflection, insight: Insight, standing: Sequence[Stored], sections: Sequence[SectionDefinition]
) -> Proposal:
    text = insight.key_insight
    near, score = nearest(text, standing)
    if near is not None and score >= SAME_LESSON and _says_more(text, near.bullet):
        reason = f"says more than {near.bullet.id}, which is the same lesson (similarity {score:.2f})"
        return _sourced(reflection, insight.steps, "UPDATE", near.bullet.section, near.bullet.id, text, reason)
    section = insight.section or _section(text, near, score, sections)
    if near is None:
        reason = "the playbook is empty"
    elif score >= SAME_LESSON:
        reason = f"confirms {near.bullet.id} (similarity {score:.2f})"
    else:
        reason = f"no bullet says this; the nearest is {near.bullet.id} (similarity {score:.2f})"
    return _sourced(reflection, insight.steps, "ADD", section, None, text, reason)


def _says_more(text: str, bullet: Bullet) -> bool:
    """Whether `text` says clearly more; a bullet that votes confirmed keeps its words."""
    confirmed = bullet.helpful > bullet.harmful
    return not confirmed and len(weights(text)) >= SAYS_MORE * max(1, len(weights(bullet.content)))


def _section(text: str, near: Stored | None, score: float, sections: Sequence[SectionDefinition]) -> str:
    """The section of a bullet on the same subject, else the defined one that describes the text best."""
    if near is not None and score >= SAME_SUBJECT:
        return near.bullet.section
    described = [(similarity(text, f"{one.name.replace('_', ' ')} {one.description}"), one.name) for one in sections]
    best = max(described, key=lambda pair: pair[0], default=(0.0, ""))
    if best[0] > 0.0:
        return best[1]
    names = {one.name for one in sections}
    return DEFAULT_SECTION if not names or DEFAULT_SECTION in names else sections[-1].name


def _contradicted(reflection: Reflection, stored: Sequence[Stored]) -> list[Proposal]:
    """Removals of bullets that this run found harmful, that votes are against, and that an insight contradicts."""
    blamed = {one.bullet_id for one in reflection.evaluations if one.tag == "harmful"}
    removals: list[Proposal] = []
    for one in stored:
        bullet = one.bullet
        harmful = bullet.harmful + 1
        if bullet.id not in blamed or harmful < OUT_VOTED or harmful <= bullet.helpful:
            continue
        contradiction = next(
            (insight for insight in reflection.insights if contradict(insight.key_insight, bullet.content)), None
        )
        if contradiction is not None:
            reason = f"contradicted by this run and out-voted ({harmful} harmful, {bullet.helpful} helpful)"
            removals.append(_sourced(reflection, contradiction.steps, "DELETE", bullet.section, bullet.id, "", reason))
    return removals


def _sourced(
    reflection: Reflection,
    steps: tuple[int, ...],
    kind: DeltaType,
    section: str,
    bullet_id: str | None,
    content: str,
    reasoning: str,
) -> Proposal:
    delta = DeltaContextItem(type=kind, section=section, bullet_id=bullet_id, content=content, reasoning=reasoning)
    sources = (Source(trajectory=reflection.trajectory_id, steps=steps),) if reflection.trajectory_id else ()
    return Proposal(delta, sources)
