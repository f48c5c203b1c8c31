"""Proposals by a chat model: one prompt, one reply, checked before anyone acts on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol, TypeVar

from pydantic import BaseModel

from libs.llm.errors import ReplyNotStructured
from services.curator.domain.curation import (
    DeltaContextItem,
    Insight,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.playbook import Bullet, Source
from services.curator.domain.similarity import similarity
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.curate import Proposed

S = TypeVar("S", bound=BaseModel)

# A prompt that shows more bullets than this hides those that matter among those that do not.
PROMPT_BULLETS = 200

_log = logging.getLogger(__name__)


class CuratorReply(BaseModel):
    """What the model is asked for (C-55)."""

    deltas: list[DeltaContextItem]


class Model(Protocol):
    """A chat model that answers in a given shape. Raises ReplyNotStructured when its reply has another."""

    async def astructured(
        self, messages: Sequence[tuple[str, str]], shape: type[S], *, describe: bool = True, reasks: int = 1
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
    ) -> str:
        """The finished text."""
        ...


class ModelCurator:
    """Asks a model which edits follow from the insights. Its text sets no id, counter, provenance or policy."""

    def __init__(self, llm_client: Model, prompt_builder: PromptBuilder, model: str) -> None:
        self.model = model
        self._llm_client = llm_client
        self._prompt_builder = prompt_builder

    async def propose(
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> Proposed:
        """The model's deltas; a reply that cannot be read gives none, and says why (C-39, C-54 to C-57).

        Raises what the model client raises (C-38).
        """
        served = [bullet for bullet in playbook.bullet_list if not bullet.retired]
        bullets = await asyncio.to_thread(relevant, served, reflection.insights, PROMPT_BULLETS)
        prompt = self._prompt_builder.build(reflection.insights, bullets, sections, playbook.dataset)
        try:
            reply = await self._llm_client.astructured([("human", prompt)], CuratorReply, describe=False, reasks=0)
        except ReplyNotStructured as error:
            _log.warning("dataset %s: the curator's reply cannot be used: %s", playbook.dataset, error)
            return Proposed(problem=str(error))
        steps = tuple(sorted({step for insight in reflection.insights for step in insight.steps}))
        sources = (Source(trajectory=reflection.trajectory_id, steps=steps),) if reflection.trajectory_id else ()
        return Proposed(tuple(Proposal(delta, sources) for delta in reply.deltas))


def relevant(bullets: Sequence[Bullet], insights: Sequence[Insight], limit: int) -> Sequence[Bullet]:
    """The `limit` bullets most like any of the insights, in playbook order; all when there are no more."""
    if len(bullets) <= limit:
        return bullets

    def closeness(bullet: Bullet) -> float:
        return max(similarity(bullet.content, insight.key_insight) for insight in insights)

    chosen = {id(bullet) for bullet in sorted(bullets, key=closeness, reverse=True)[:limit]}
    return [bullet for bullet in bullets if id(bullet) in chosen]
