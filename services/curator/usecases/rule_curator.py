"""Proposals by rules, without a model: add what is new, improve what says it worse, remove what is contradicted.

Deterministic: the same playbook and reflection give the same proposals, each with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.curator.domain.curation import (
    DeltaContextItem,
    DeltaType,
    Insight,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.lessons import (
    SAME_LESSON,
    contains,
    distinct,
    is_attested,
    is_recipe,
    same_lesson,
    says_more,
)
from services.curator.domain.log import Stored
from services.curator.domain.merge import joined_sources
from services.curator.domain.playbook import Bullet, Source
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.similarity import SAME_SUBJECT, contradict, nearest, similarity
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.curate import Proposed

# A bullet needs this many harmful votes before a contradiction removes it.
OUT_VOTED = 2
DEFAULT_SECTION = "others"
# Waiting changes that are looked through for a first trajectory that taught the same.
MAX_WAITING = 1_000

HOLDS_FOR_ONE_TASK = "it tells the calls of one task; a playbook keeps what other tasks can use"
WAITS_FOR_A_SECOND = (
    "only the agent's own word says how the run ended; it waits for a second trajectory that teaches it"
)
WAITS_ALREADY = "it waits already for a second trajectory that teaches it"


class Waiting(Protocol):
    """Knows the changes that wait."""

    async def pending(
        self, dataset: str, states: Sequence[PendingState], after: str, limit: int
    ) -> list[PendingChange]:
        """Pending changes in these states, oldest first, behind the one with id `after` (empty = from the start)."""
        ...


class RuleCurator:
    """Curation by the likeness of lessons; `model` is what a revision says of it."""

    model = "offline"

    def __init__(self, waiting: Waiting | None = None) -> None:
        """Without `waiting`, a lesson that waits for a second trajectory waits for a person instead."""
        self._waiting = waiting

    async def propose(
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> Proposed:
        """One proposal per lesson, and removals of bullets that lessons contradict and votes are against.

        Where nothing but the agent's own word says how the run ended, lessons that no tool's words back wait for a
        second trajectory, no wording is changed for theirs, and nothing is removed.
        """
        waiting: list[PendingChange] = []
        if self._waiting and not reflection.reliable:
            waiting = await self._waiting.pending(playbook.dataset, [PendingState.WAITING], "", MAX_WAITING)
        rules = _Rules(reflection, playbook.everything(), sections, waiting)
        proposals = await asyncio.to_thread(rules.proposals)
        return Proposed(tuple(proposals), threshold=SAME_LESSON)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules for one reflection against one state of a playbook."""

    reflection: Reflection
    stored: Sequence[Stored]
    sections: Sequence[SectionDefinition]
    waiting: Sequence[PendingChange]

    def proposals(self) -> list[Proposal]:
        lessons = distinct(self.reflection.insights)
        removals = self._contradicted(lessons) if self.reflection.reliable else []
        gone = {proposal.delta.bullet_id for proposal in removals}
        standing = [one for one in self.stored if one.bullet.id not in gone]
        return [*removals, *(self._proposal(lesson, standing) for lesson in lessons)]

    def _proposal(self, lesson: Insight, standing: Sequence[Stored]) -> Proposal:
        text = lesson.key_insight
        if is_recipe(text, self.reflection.query):
            return self._sourced(lesson, "ADD", lesson.section, None, HOLDS_FOR_ONE_TASK, declined=HOLDS_FOR_ONE_TASK)
        near, score = nearest(text, standing)
        trusted = self.reflection.reliable or is_attested(text, self.reflection.query)
        if near is not None and score >= SAME_LESSON:
            return self._of_known(lesson, near.bullet, score, trusted=trusted)
        section = lesson.section or _section(text, near, score, self.sections)
        if not trusted:
            return self._once_more(lesson, section)
        closest = f"; the nearest is {near.bullet.id} ({score:.2f})" if near is not None else ""
        reason = f"no bullet says this{closest}" if standing else "the playbook is empty"
        return self._sourced(lesson, "ADD", section, None, reason)

    def _of_known(self, lesson: Insight, known: Bullet, score: float, *, trusted: bool) -> Proposal:
        """What becomes of a lesson that a bullet teaches already: the better text stays, with the sources of both."""
        text, alike = lesson.key_insight, f"the same lesson (likeness {score:.2f})"
        if trusted and contains(text, known.content):
            reason = f"says all that {known.id} says and more; {alike}"
        elif trusted and says_more(text, known.content) and not known.helpful > known.harmful:
            reason = f"says more than {known.id}, which no votes confirm; {alike}"
        else:
            # The merge knows it as one that is there, and notes who confirms it.
            return self._sourced(lesson, "ADD", known.section, None, f"confirms {known.id}; {alike}")
        return self._sourced(lesson, "UPDATE", known.section, known.id, reason)

    def _once_more(self, lesson: Insight, section: str) -> Proposal:
        """A lesson that waits, or the second trajectory it waited for."""
        own = self.reflection.trajectory_id
        alike = [one for one in self.waiting if same_lesson(one.proposal.delta.content, lesson.key_insight)]
        first = next((one for one in alike if own and one.source_trajectory not in ("", own)), None)
        if first is not None:
            reason = f"a second trajectory teaches it; the first was {first.source_trajectory}"
            return self._sourced(lesson, "ADD", section, None, reason, before=first.proposal.sources)
        if alike:
            return self._sourced(lesson, "ADD", section, None, WAITS_ALREADY, declined=WAITS_ALREADY)
        return self._sourced(lesson, "ADD", section, None, WAITS_FOR_A_SECOND, waits=WAITS_FOR_A_SECOND)

    def _contradicted(self, lessons: Sequence[Insight]) -> list[Proposal]:
        """Removals of bullets that this run found harmful, that votes are against, and that a lesson contradicts."""
        blamed = {one.bullet_id for one in self.reflection.evaluations if one.tag == "harmful"}
        removals: list[Proposal] = []
        for one in self.stored:
            bullet = one.bullet
            harmful = bullet.harmful + 1
            if bullet.id not in blamed or harmful < OUT_VOTED or harmful <= bullet.helpful:
                continue
            lesson = next((lesson for lesson in lessons if contradict(lesson.key_insight, bullet.content)), None)
            if lesson is not None:
                reason = f"contradicted by this run and out-voted ({harmful} harmful, {bullet.helpful} helpful)"
                removals.append(self._sourced(lesson, "DELETE", bullet.section, bullet.id, reason))
        return removals

    def _sourced(
        self,
        lesson: Insight,
        kind: DeltaType,
        section: str,
        bullet_id: str | None,
        reason: str,
        *,
        before: tuple[Source, ...] = (),
        declined: str = "",
        waits: str = "",
    ) -> Proposal:
        content = "" if kind == "DELETE" else lesson.key_insight
        delta = DeltaContextItem(type=kind, section=section, bullet_id=bullet_id, content=content, reasoning=reason)
        trajectory = self.reflection.trajectory_id
        own = (Source(trajectory=trajectory, steps=lesson.steps),) if trajectory else ()
        return Proposal(delta, joined_sources(before, own), declined, waits)


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
