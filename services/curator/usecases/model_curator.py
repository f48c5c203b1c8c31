"""Proposals by a chat model: one prompt, one reply, checked before anyone acts on it."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from pydantic import BaseModel

from chassis.logging import get_logger
from libs.llm.errors import ReplyNotStructured
from services.curator.domain.curation import (
    DeltaContextItem,
    Insight,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.log import Stored
from services.curator.domain.playbook import MAX_CONTENT_CHARS, Bullet, Source
from services.curator.domain.similarity import Similarity, select_relevant
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.curate import Proposed
from services.curator.usecases.similarity import SimilaritySource

S = TypeVar("S", bound=BaseModel)

# A prompt that shows more bullets than this hides those that matter among those that do not.
PROMPT_BULLETS = 200

NOT_READ = "the model was not shown this bullet and cannot edit it"

_log = get_logger(__name__)


class CuratorReply(BaseModel):
    """What the model is asked for (C-55)."""

    deltas: list[DeltaContextItem]


class Model(Protocol):
    """A chat model that answers in a given shape. Raises ReplyNotStructured when its reply has another."""

    async def ainvoke_structured(
        self, messages: Sequence[tuple[str, str]], shape: type[S], *, describe_schema: bool = True, corrections: int = 1
    ) -> S:
        """The reply as a `shape`."""
        ...


class PromptBuilder(Protocol):
    """Writes the prompt (C-44)."""

    def build(
        self,
        insights: Sequence[Insight],
        bullets: Sequence[Bullet],
        sections: Sequence[SectionDefinition],
        dataset: str,
        others: Sequence[Bullet] = (),
    ) -> str:
        """The finished text; of `others` it holds an outline."""
        ...


class ModelCurator:
    """Asks a model which edits follow from the insights. Its text sets no id, counter, provenance or policy.

    Of a large playbook it sees what matters for the insights, and an outline of the rest. What it then proposes is
    checked against the whole: it cannot edit what it did not read, nor add what it could not know is there.
    """

    def __init__(self, llm_client: Model, prompt_builder: PromptBuilder, model: str, source: SimilaritySource) -> None:
        self.model = model
        self._llm_client = llm_client
        self._prompt_builder = prompt_builder
        self._source = source

    async def propose(
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> Proposed:
        """The model's deltas; a reply that cannot be read gives none, and says why (C-39, C-54 to C-57).

        Raises what the model client raises (C-38), and SimilarityUnavailable.
        """
        lessons = [insight.key_insight for insight in reflection.insights]
        in_use = [stored for stored in playbook.everything() if not stored.bullet.retired]
        shown = in_use if len(in_use) <= PROMPT_BULLETS else await self._select(lessons, playbook, in_use)
        slots = {stored.slot for stored in shown}
        others = [one for one in in_use if one.slot not in slots]
        prompt = self._prompt_builder.build(
            reflection.insights, _bullets(shown), sections, playbook.dataset, _bullets(others)
        )
        try:
            reply = await self._llm_client.ainvoke_structured(
                [("human", prompt)], CuratorReply, describe_schema=False, corrections=0
            )
        except ReplyNotStructured as error:
            _log.warning("reply of the curator model cannot be used", dataset=playbook.dataset, error=str(error))
            return Proposed(problem=str(error))
        steps = tuple(sorted({step for insight in reflection.insights for step in insight.steps}))
        sources = (Source(trajectory=reflection.trajectory_id, steps=steps),) if reflection.trajectory_id else ()
        proposals = tuple(Proposal(delta, sources) for delta in reply.deltas)
        return Proposed(await self._checked(proposals, playbook, others) if others else proposals)

    async def _select(self, lessons: Sequence[str], playbook: Snapshot, bullets: Sequence[Stored]) -> Sequence[Stored]:
        """Return the bullets that matter most for the lessons, in playbook order."""
        similarity = await self._source.compare(lessons, playbook)
        return await asyncio.to_thread(select_relevant, similarity, lessons, bullets, PROMPT_BULLETS)

    async def _checked(
        self, proposals: Sequence[Proposal], playbook: Snapshot, others: Sequence[Stored]
    ) -> tuple[Proposal, ...]:
        """The proposals beside the bullets that the model did not see."""
        unseen = {stored.bullet.id for stored in others}
        added = [one.delta.content for one in proposals if one.delta.type == "ADD" and _comparable(one.delta.content)]
        similarity = await self._source.compare(added, playbook)
        return tuple(_beside(proposal, unseen, others, similarity) for proposal in proposals)


def _beside(proposal: Proposal, unseen: Container[str], others: Sequence[Stored], similarity: Similarity) -> Proposal:
    delta = proposal.delta
    if delta.type != "ADD":
        return replace(proposal, declined=NOT_READ) if delta.bullet_id in unseen else proposal
    found, score = similarity.nearest(delta.content, others) if _comparable(delta.content) else (None, 0.0)
    same = found is not None and score >= similarity.thresholds.same_meaning
    return replace(proposal, confirms=found.bullet.id) if found is not None and same else proposal


def _comparable(content: str) -> bool:
    return bool(content.strip()) and len(content) <= MAX_CONTENT_CHARS


def _bullets(stored: Iterable[Stored]) -> list[Bullet]:
    return [one.bullet for one in stored]
