"""Proposals by rules, without a model: add what is new, improve what says it worse, remove what is contradicted.

Deterministic: the same playbook and reflection give the same proposals, each with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from services.curator.domain.curation import (
    RULES,
    DeltaContextItem,
    DeltaType,
    Insight,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.lessons import contains, distinct, is_attested, is_recipe, says_more
from services.curator.domain.log import Stored
from services.curator.domain.playbook import Bullet, Source
from services.curator.domain.similarity import Similarity
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.word_similarity import WORDS
from services.curator.usecases.curate import Proposed
from services.curator.usecases.similarity import SimilaritySource

# A bullet needs this many harmful votes before a contradiction removes it.
OUT_VOTED = 2
DEFAULT_SECTION = "others"

HOLDS_FOR_ONE_TASK = "it tells the calls of one task; a playbook keeps what other tasks can use"


class RuleCurator:
    """Curation by the similarity of lessons; `model` is what a revision says of it."""

    model = RULES

    def __init__(self, source: SimilaritySource) -> None:
        self._source = source

    async def propose(
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> Proposed:
        """One proposal per lesson, and removals of bullets that lessons contradict and votes are against.

        Where nothing but the agent's own word says how the run ended, no wording is changed for lessons that no tool's
        words back, and nothing is removed. Raises SimilarityUnavailable.
        """
        lessons = [insight.key_insight for insight in reflection.insights]
        similarity = await self._source.compare(lessons, playbook)
        rules = _Rules(reflection, playbook.everything(), sections, similarity)
        return Proposed(tuple(await asyncio.to_thread(rules.proposals)), threshold=WORDS.thresholds.same_meaning)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules for one reflection against one state of a playbook."""

    reflection: Reflection
    stored: Sequence[Stored]
    sections: Sequence[SectionDefinition]
    similarity: Similarity

    def proposals(self) -> list[Proposal]:
        lessons = distinct(self.reflection.insights, self.similarity)
        removals = self._contradicted(lessons) if self.reflection.reliable else []
        gone = {proposal.delta.bullet_id for proposal in removals}
        standing = [one for one in self.stored if one.bullet.id not in gone]
        return [*removals, *(self._proposal(lesson, standing) for lesson in lessons)]

    def _proposal(self, lesson: Insight, standing: Sequence[Stored]) -> Proposal:
        text = lesson.key_insight
        if is_recipe(text, self.reflection.query):
            return self._sourced(lesson, "ADD", lesson.section, None, HOLDS_FOR_ONE_TASK, declined=HOLDS_FOR_ONE_TASK)
        near, score = self.similarity.nearest(text, standing)
        if near is not None and (score >= self.similarity.thresholds.same_meaning or near.bullet.content == text):
            return self._of_known(lesson, near.bullet)
        section = lesson.section or self._section(text, near, score)
        return self._sourced(lesson, "ADD", section, None, self._new(text, near, standing))

    def _new(self, text: str, near: Stored | None, standing: Sequence[Stored]) -> str:
        """Why a lesson is one that no bullet teaches."""
        if not standing:
            return "the playbook is empty"
        if near is None:
            return f"no bullet says this; similarity 0.00 with all ({self.similarity.name})"
        described = self.similarity.describe(text, near.bullet.content)
        return f"no bullet says this; the nearest is {near.bullet.id} ({described})"

    def _of_known(self, lesson: Insight, known: Bullet) -> Proposal:
        """What becomes of a lesson that a bullet teaches already: the better text stays, with the sources of both."""
        text = lesson.key_insight
        alike = f"the same lesson ({self.similarity.describe(text, known.content)})"
        trusted = self.reflection.reliable or (self.reflection.by_rules and is_attested(text, self.reflection.query))
        if trusted and contains(text, known.content):
            reason = f"says all that {known.id} says and more; {alike}"
        elif trusted and says_more(text, known.content, self.similarity) and not known.helpful > known.harmful:
            reason = f"says more than {known.id}, which no votes confirm; {alike}"
        else:
            reason = f"confirms {known.id}; {alike}"
            return self._sourced(lesson, "ADD", known.section, None, reason, confirms=known.id)
        return self._sourced(lesson, "UPDATE", known.section, known.id, reason)

    def _contradicted(self, lessons: Sequence[Insight]) -> list[Proposal]:
        """Removals of bullets that this run found harmful, that votes are against, and that a lesson contradicts."""
        blamed = _blamed(self.reflection)
        removals: list[Proposal] = []
        for one in self.stored:
            bullet = one.bullet
            harmful = bullet.harmful + 1
            if bullet.id not in blamed or harmful < OUT_VOTED or harmful <= bullet.helpful:
                continue
            lesson = next(
                (lesson for lesson in lessons if self.similarity.contradicts(lesson.key_insight, bullet.content)), None
            )
            if lesson is not None:
                alike = self.similarity.describe(lesson.key_insight, bullet.content)
                votes = f"{harmful} harmful, {bullet.helpful} helpful"
                reason = f"contradicted by this run ({alike}) and out-voted ({votes})"
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
        declined: str = "",
        confirms: str = "",
    ) -> Proposal:
        content = "" if kind == "DELETE" else lesson.key_insight
        delta = DeltaContextItem(type=kind, section=section, bullet_id=bullet_id, content=content, reasoning=reason)
        trajectory = self.reflection.trajectory_id
        own = (Source(trajectory=trajectory, steps=lesson.steps),) if trajectory else ()
        return Proposal(delta, own, declined, confirms=confirms)

    def _section(self, text: str, near: Stored | None, score: float) -> str:
        """The section of a bullet on the same subject, else the defined one whose words describe the text best."""
        if near is not None and score >= self.similarity.thresholds.same_subject:
            return near.bullet.section
        described = [
            (WORDS.cosine(text, f"{one.name.replace('_', ' ')} {one.description}"), one.name) for one in self.sections
        ]
        best = max(described, key=lambda pair: pair[0], default=(0.0, ""))
        if best[0] > 0.0:
            return best[1]
        names = {one.name for one in self.sections}
        return DEFAULT_SECTION if not names or DEFAULT_SECTION in names else self.sections[-1].name


def _blamed(reflection: Reflection) -> set[str]:
    """The ids of the bullets that the run found harmful."""
    return {one.bullet_id for one in reflection.evaluations if one.tag == "harmful"}
