"""Propose edits by rules, without a model: add new lessons, improve wordings, remove contradicted bullets.

The rules are deterministic: equal playbooks and reflections give equal proposals, each with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from services.curator.domain.curation import (
    OFFLINE_MODEL,
    DeltaContextItem,
    DeltaType,
    Lesson,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.lessons import contains, is_attested, merge_lessons, says_more
from services.curator.domain.log import StoredBullet
from services.curator.domain.playbook import DEFAULT_SECTION, Bullet, BulletTarget, Source
from services.curator.domain.review import PendingChange
from services.curator.domain.similarity import Similarity, find_subject
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.word_similarity import WORDS
from services.curator.usecases.curate import ProposedEdits
from services.curator.usecases.similarity import SimilaritySource

MIN_HARMFUL_VOTES = 2
"""The harmful votes from which a contradicted bullet is removed."""

GENERAL_ADVICE = "no response of a tool supports it, and rules have no other evidence; a model may judge it"


class RuleCurator:
    """Proposes edits by the similarity of lessons, without a model."""

    model = OFFLINE_MODEL

    def __init__(self, source: SimilaritySource) -> None:
        self._source = source

    async def propose(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange] = (),
    ) -> ProposedEdits:
        """Return one proposal for each lesson, and removals of outvoted bullets that a lesson contradicts.

        If only the agent itself reports the outcome, nothing is removed and no wording changes.
        Raises SimilarityUnavailable.
        """
        lessons = [insight.key_insight for insight in reflection.insights]
        similarity = await self._source.compare(lessons, playbook)
        rules = _Rules(reflection, playbook.list_bullets(), sections, similarity)
        is_small = len(rules.bullets) * len(lessons) <= similarity.inline_comparisons
        proposals = rules.propose() if is_small else await asyncio.to_thread(rules.propose)
        return ProposedEdits(tuple(proposals), threshold=WORDS.thresholds.same_meaning)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules for one reflection and one state of a playbook."""

    reflection: Reflection
    bullets: Sequence[StoredBullet]
    sections: Sequence[SectionDefinition]
    similarity: Similarity

    def propose(self) -> list[Proposal]:
        lessons = merge_lessons(self.reflection.insights, self.similarity)
        removals = self._propose_removals(lessons) if self.reflection.is_reliable else []
        bullets = self.bullets
        if removals:
            removed_ids = {proposal.delta.bullet_id for proposal in removals}
            bullets = [stored for stored in bullets if stored.bullet.id not in removed_ids]
        return [*removals, *(self._propose_edit(lesson, bullets) for lesson in lessons)]

    def _propose_edit(self, lesson: Lesson, bullets: Sequence[StoredBullet]) -> Proposal:
        text = lesson.key_insight
        if self.reflection.is_from_rules and not is_attested(text, self.reflection.query):
            return self._build_proposal(lesson, "ADD", lesson.section, GENERAL_ADVICE, decline_reason=GENERAL_ADVICE)
        nearest, score = self.similarity.find_nearest(text, bullets)
        if nearest is None:
            reason = f"no bullet says this; similarity 0.00 with all ({self.similarity.name})"
            reason = reason if bullets else "the playbook is empty"
            return self._build_proposal(lesson, "ADD", lesson.section or self._choose_section(text), reason)
        if score >= self.similarity.thresholds.same_meaning or nearest.bullet.content == text:
            return self._propose_improvement(lesson, nearest.bullet)
        is_same_subject = score >= self.similarity.thresholds.same_subject
        section = lesson.section or (nearest.bullet.section if is_same_subject else self._choose_section(text))
        described = self.similarity.describe(text, nearest.bullet.content)
        reason = f"no bullet says this; the nearest is {nearest.bullet.id} ({described})"
        return self._build_proposal(lesson, "ADD", section, reason)

    def _propose_improvement(self, lesson: Lesson, bullet: Bullet) -> Proposal:
        """Return an UPDATE of the bullet if the lesson has the better wording, else an ADD that confirms the bullet."""
        text = lesson.key_insight
        described = f"the same lesson ({self.similarity.describe(text, bullet.content)})"
        quotes_unproven = find_subject(text) is not None and not self.reflection.has_trusted_signal
        is_trusted = self.reflection.is_reliable and not quotes_unproven
        if is_trusted and contains(text, bullet.content):
            reason = f"says all that {bullet.id} says and more; {described}"
        elif is_trusted and says_more(text, bullet.content, self.similarity) and bullet.helpful <= bullet.harmful:
            reason = f"says more than {bullet.id}, which no votes confirm; {described}"
        else:
            reason = f"confirms {bullet.id}; {described}"
            return self._build_proposal(lesson, "ADD", bullet.section, reason, confirmed_id=bullet.id)
        return self._build_proposal(lesson, "UPDATE", bullet.section, reason, bullet.id)

    def _propose_removals(self, lessons: Sequence[Lesson]) -> list[Proposal]:
        """Return removals of outvoted bullets that this trajectory found harmful and that a lesson contradicts."""
        evaluations = self.reflection.evaluations
        harmful_ids = {evaluation.bullet_id for evaluation in evaluations if evaluation.tag == "harmful"}
        if not harmful_ids:
            return []
        removals: list[Proposal] = []
        for bullet in (stored.bullet for stored in self.bullets if stored.bullet.id in harmful_ids):
            harmful = bullet.harmful + 1
            if harmful < MIN_HARMFUL_VOTES or harmful <= bullet.helpful:
                continue
            contradicting = (
                lesson for lesson in lessons if self.similarity.contradicts(lesson.key_insight, bullet.content)
            )
            lesson = next(contradicting, None)
            if lesson is not None:
                described = self.similarity.describe(lesson.key_insight, bullet.content)
                votes = f"{harmful} harmful, {bullet.helpful} helpful"
                reason = f"contradicted by this trajectory ({described}) and outvoted ({votes})"
                removals.append(self._build_proposal(lesson, "DELETE", bullet.section, reason, bullet.id))
        return removals

    def _build_proposal(
        self,
        lesson: Lesson,
        delta_type: DeltaType,
        section: str,
        reason: str,
        bullet_id: str | None = None,
        **outcome: str,
    ) -> Proposal:
        content = "" if delta_type == "DELETE" else lesson.key_insight
        delta = DeltaContextItem(
            type=delta_type, section=section, bullet_id=bullet_id, content=content, reasoning=reason
        )
        trajectory = self.reflection.trajectory_id
        sources = (Source(trajectory=trajectory, steps=lesson.steps),) if trajectory else ()
        target = BulletTarget(expression=lesson.target) if lesson.target and delta_type != "DELETE" else None
        return Proposal(delta, sources, target=target, **outcome)

    def _choose_section(self, text: str) -> str:
        """Return the defined section whose words describe the text best, else a default."""
        names = [section.name for section in self.sections]
        cosines = [
            WORDS.compute_cosine(text, f"{section.name.replace('_', ' ')} {section.description}")
            for section in self.sections
        ]
        if cosines and max(cosines) > 0.0:
            return names[cosines.index(max(cosines))]
        return DEFAULT_SECTION if not names or DEFAULT_SECTION in names else names[-1]
