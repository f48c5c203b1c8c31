"""Propose edits by a chat model: one prompt and one reply, which is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from pydantic import BaseModel

from libs.llm.fitting import ask_within_context
from services.curator.domain.curation import Proposal, Reflection, SectionDefinition
from services.curator.domain.log import StoredBullet
from services.curator.domain.playbook import MAX_CONTENT_CHARS, Bullet
from services.curator.domain.review import PendingChange
from services.curator.domain.similarity import select_relevant
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.word_similarity import WORDS
from services.curator.prompts.builder import CuratorPromptBuilder, Material
from services.curator.usecases.corroboration import WAITS_FOR_SECOND_SOURCE
from services.curator.usecases.curate import ProposedEdits
from services.curator.usecases.model_operations import (
    NOT_SHOWN,
    CuratorReply,
    DeltasReply,
    ShownItems,
    build_own_proposals,
    build_proposals,
)
from services.curator.usecases.similarity import SimilaritySource

S = TypeVar("S", bound=BaseModel)

PROMPT_BULLETS = 200
"""Bullets in a prompt; among more of them a model overlooks the relevant ones."""
PROMPT_WAITING = 40
"""Lessons in a prompt that wait for a second trajectory."""
MATERIAL_CHARS = 200_000
"""Characters of the bullets, the waiting lessons and the lessons in a prompt."""
_LESSONS_SHARE = 0.4


class StructuredModel(Protocol):
    """A chat model with structured output."""

    async def find_context_tokens(self) -> int | None:
        """Return the size of the model's context, None if it is unknown."""

    async def ainvoke_structured(
        self,
        messages: Sequence[tuple[str, str]],
        shape: type[S],
        *,
        describe_schema: bool = True,
        report_truncation: Callable[[str], None] = lambda problem: None,
    ) -> S:
        """Return the reply as a `shape`. Raises ReplyNotStructured for a reply of another shape."""


class ModelCurator:
    """Asks a model for the edits that follow from the lessons. Its text sets no id, counter, source or policy.

    Of a large playbook the model sees the most relevant bullets and an outline of the others. Its edits are checked
    against all bullets: it cannot edit a bullet that it did not see, nor add a lesson that such a bullet contains.
    """

    def __init__(
        self, llm_client: StructuredModel, prompt_builder: CuratorPromptBuilder, model: str, source: SimilaritySource
    ) -> None:
        self.model = model
        self._llm_client = llm_client
        self._prompt_builder = prompt_builder
        self._source = source

    async def propose(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange] = (),
    ) -> ProposedEdits:
        """Return the edits of the model. The complete edits of a truncated reply are used, and the problem is named.

        Raises the errors of the model client (C-38), ReplyNotStructured for a reply that stays unreadable,
        SimilarityUnavailable.
        """
        problems: list[str] = []
        second = [change for change in waiting if change.review_reason in WAITS_FOR_SECOND_SOURCE]
        near = await self._select_waiting(reflection, second)
        proposals, others = await ask_within_context(
            lambda chars: self._ask(reflection, playbook, sections, near, chars, problems.append),
            MATERIAL_CHARS,
            self._llm_client.find_context_tokens,
        )
        if others:
            proposals = await self._check_unseen(proposals, playbook, others)
        return ProposedEdits(tuple(proposals), problem="; ".join(problems), threshold=WORDS.thresholds.same_meaning)

    async def _ask(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange],
        chars: int,
        report_truncation: Callable[[str], None],
    ) -> tuple[tuple[Proposal, ...], list[StoredBullet]]:
        """Return the proposals of one reply, and the bullets that the model was not shown."""
        in_use = [stored for stored in playbook.list_bullets() if not stored.bullet.retired]
        shown = await self._select(reflection, playbook, in_use, int(chars * (1 - _LESSONS_SHARE)))
        slots = {stored.slot for stored in shown}
        others = [stored for stored in in_use if stored.slot not in slots]
        material = Material(
            reflection=reflection,
            bullets=_select_bullets(shown),
            others=_select_bullets(others),
            sections=sections,
            waiting={f"w-{number}": change for number, change in enumerate(waiting, 1)},
            lesson_chars=int(chars * _LESSONS_SHARE) // max(1, len(reflection.insights)),
        )
        own = self._prompt_builder.build_own(material, playbook.dataset)
        if own is not None:
            deltas = await self._llm_client.ainvoke_structured(
                [("human", own)], DeltasReply, describe_schema=False, report_truncation=report_truncation
            )
            return build_own_proposals(deltas, reflection), others
        reply = await self._llm_client.ainvoke_structured(
            self._prompt_builder.build_messages(material),
            CuratorReply,
            describe_schema=False,
            report_truncation=report_truncation,
        )
        by_id = {bullet.id: bullet for bullet in reversed(material.bullets)}
        return build_proposals(reply, ShownItems(reflection, by_id, material.waiting)), others

    async def _select(
        self, reflection: Reflection, playbook: Snapshot, bullets: Sequence[StoredBullet], chars: int
    ) -> Sequence[StoredBullet]:
        """Return the bullets for the prompt in playbook order: all that fit, else the most relevant ones."""
        size = sum(len(stored.bullet.content) for stored in bullets)
        if len(bullets) <= PROMPT_BULLETS and size <= chars:
            return bullets
        limit = max(1, min(PROMPT_BULLETS, len(bullets) * chars // max(1, size)))
        lessons = [insight.key_insight for insight in reflection.insights]
        similarity = await self._source.compare(lessons, playbook)
        return await asyncio.to_thread(select_relevant, similarity, lessons, bullets, limit)

    async def _select_waiting(
        self, reflection: Reflection, waiting: Sequence[PendingChange]
    ) -> Sequence[PendingChange]:
        """Return the waiting lessons that are nearest to a lesson, oldest first."""
        if len(waiting) <= PROMPT_WAITING:
            return waiting
        lessons = [insight.key_insight for insight in reflection.insights]
        contents = [change.proposal.delta.content for change in waiting]
        similarity = await self._source.compare([*lessons, *contents])

        def choose() -> list[PendingChange]:
            scores = [max(similarity.compute_cosine(lesson, content) for lesson in lessons) for content in contents]
            nearest = sorted(range(len(waiting)), key=lambda index: -scores[index])[:PROMPT_WAITING]
            return [waiting[index] for index in sorted(nearest)]

        return await asyncio.to_thread(choose)

    async def _check_unseen(
        self, proposals: Sequence[Proposal], playbook: Snapshot, others: Sequence[StoredBullet]
    ) -> tuple[Proposal, ...]:
        """Decline edits of bullets that the model did not see, and mark additions that such bullets already contain."""
        unseen_ids = {stored.bullet.id for stored in others}
        additions = [proposal.delta.content for proposal in proposals if _is_new(proposal)]
        similarity = await self._source.compare(additions, playbook)

        def check(proposal: Proposal) -> Proposal:
            delta = proposal.delta
            if delta.type != "ADD":
                return replace(proposal, decline_reason=NOT_SHOWN) if delta.bullet_id in unseen_ids else proposal
            if not _is_new(proposal):
                return proposal
            nearest, score = similarity.find_nearest(delta.content, others)
            if nearest is None or score < similarity.thresholds.same_meaning:
                return proposal
            return replace(proposal, confirmed_id=nearest.bullet.id)

        return await asyncio.to_thread(lambda: tuple(map(check, proposals)))


def _is_new(proposal: Proposal) -> bool:
    """Return whether a proposal adds a text that can be compared."""
    content = proposal.delta.content
    is_comparable = bool(content.strip()) and len(content) <= MAX_CONTENT_CHARS
    return proposal.delta.type == "ADD" and is_comparable and not (proposal.decline_reason or proposal.confirmed_id)


def _select_bullets(stored_bullets: Iterable[StoredBullet]) -> list[Bullet]:
    return [stored.bullet for stored in stored_bullets]
