"""Propose edits by a chat model: one prompt and one reply, which is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from pydantic import BaseModel

from chassis.logging import get_logger
from libs.llm.errors import ReplyNotStructured
from services.curator.domain.curation import (
    DeltaContextItem,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.log import StoredBullet
from services.curator.domain.playbook import MAX_CONTENT_CHARS, Bullet, Source
from services.curator.domain.similarity import select_relevant
from services.curator.domain.snapshot import Snapshot
from services.curator.prompts.builder import CuratorPromptBuilder
from services.curator.usecases.curate import ProposedEdits
from services.curator.usecases.similarity import SimilaritySource

S = TypeVar("S", bound=BaseModel)

PROMPT_BULLETS = 200
"""Bullets in a prompt; among more of them a model overlooks the relevant ones."""

NOT_SHOWN = "the model was not shown this bullet and cannot edit it"

_log = get_logger(__name__)


class CuratorReply(BaseModel):
    """The reply of the model (C-55)."""

    deltas: list[DeltaContextItem]


class StructuredModel(Protocol):
    """A chat model with structured output."""

    async def ainvoke_structured(
        self, messages: Sequence[tuple[str, str]], shape: type[S], *, describe_schema: bool = True, corrections: int = 1
    ) -> S:
        """Return the reply as a `shape`. Raises ReplyNotStructured for a reply of another shape."""


class ModelCurator:
    """Asks a model for the edits that follow from the insights. Its text sets no id, counter, source or policy.

    Of a large playbook the model sees the most relevant bullets and an outline of the others. Its deltas are checked
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
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> ProposedEdits:
        """Return the deltas of the model, or the problem of a reply that cannot be parsed (C-39, C-54 to C-57).

        Raises the errors of the model client (C-38), SimilarityUnavailable.
        """
        lessons = [insight.key_insight for insight in reflection.insights]
        in_use = [stored for stored in playbook.all_bullets() if not stored.bullet.retired]
        shown = in_use if len(in_use) <= PROMPT_BULLETS else await self._select(lessons, playbook, in_use)
        slots = {stored.slot for stored in shown}
        others = [stored for stored in in_use if stored.slot not in slots]
        prompt = self._prompt_builder.build(
            reflection.insights, _select_bullets(shown), sections, playbook.dataset, _select_bullets(others)
        )
        try:
            reply = await self._llm_client.ainvoke_structured(
                [("human", prompt)], CuratorReply, describe_schema=False, corrections=0
            )
        except ReplyNotStructured as error:
            _log.warning("reply of the curator model cannot be used", dataset=playbook.dataset, error=str(error))
            return ProposedEdits(problem=str(error))
        steps = tuple(sorted({step for insight in reflection.insights for step in insight.steps}))
        sources = (Source(trajectory=reflection.trajectory_id, steps=steps),) if reflection.trajectory_id else ()
        proposals = tuple(Proposal(delta, sources) for delta in reply.deltas)
        return ProposedEdits(await self._check_unseen(proposals, playbook, others) if others else proposals)

    async def _select(
        self, lessons: Sequence[str], playbook: Snapshot, bullets: Sequence[StoredBullet]
    ) -> Sequence[StoredBullet]:
        """Return the most relevant bullets for the lessons, in playbook order."""
        similarity = await self._source.compare(lessons, playbook)
        return await asyncio.to_thread(select_relevant, similarity, lessons, bullets, PROMPT_BULLETS)

    async def _check_unseen(
        self, proposals: Sequence[Proposal], playbook: Snapshot, others: Sequence[StoredBullet]
    ) -> tuple[Proposal, ...]:
        """Decline edits of bullets that the model did not see, and mark additions that such bullets already contain."""
        unseen_ids = {stored.bullet.id for stored in others}
        deltas = [proposal.delta for proposal in proposals]
        additions = [delta.content for delta in deltas if delta.type == "ADD" and _is_comparable(delta.content)]
        similarity = await self._source.compare(additions, playbook)

        def check(proposal: Proposal) -> Proposal:
            delta = proposal.delta
            if delta.type != "ADD":
                return replace(proposal, decline_reason=NOT_SHOWN) if delta.bullet_id in unseen_ids else proposal
            if not _is_comparable(delta.content):
                return proposal
            nearest, score = similarity.nearest(delta.content, others)
            if nearest is None or score < similarity.thresholds.same_meaning:
                return proposal
            return replace(proposal, confirmed_id=nearest.bullet.id)

        return tuple(check(proposal) for proposal in proposals)


def _is_comparable(content: str) -> bool:
    return bool(content.strip()) and len(content) <= MAX_CONTENT_CHARS


def _select_bullets(stored_bullets: Iterable[StoredBullet]) -> list[Bullet]:
    return [stored.bullet for stored in stored_bullets]
