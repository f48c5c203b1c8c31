"""What only an agent's own word backs is not learned at once, whoever curates: it waits for a second opinion.

A run whose end nothing else vouches for may be wrong about what it teaches. So its new lessons wait until another
trajectory teaches the same, its edits of what is known wait for a person, and its votes do not count (see `merge`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from services.curator.domain.curation import Proposal, Reflection
from services.curator.domain.gate import WAITS_AS_INSTRUCTION, instruction_in
from services.curator.domain.lessons import is_attested, quotes
from services.curator.domain.merge import joined_sources
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.similarity import Similarity
from services.curator.usecases.similarity import SimilaritySource

# Waiting changes that are looked through for a first trajectory that taught the same.
MAX_WAITING = 1_000

WAITS_FOR_A_SECOND = (
    "only the agent's own word says how the run ended; it waits for a second trajectory that teaches it"
)
WAITS_ALREADY = "it waits already for a second trajectory that teaches it"
WAITS_FOR_A_PERSON = "only the agent's own word says how the run ended; a person decides"


class Waiting(Protocol):
    """Knows the changes that wait."""

    async def pending(
        self, dataset: str, states: Sequence[PendingState], after: str, limit: int
    ) -> list[PendingChange]:
        """Pending changes in these states, oldest first, behind the one with id `after` (empty = from the start)."""
        ...


class SecondOpinion:
    """Lets pass what more than one agent's word backs, and holds the rest; and whatever addresses its reader."""

    def __init__(self, waiting: Waiting, source: SimilaritySource) -> None:
        self._waiting = waiting
        self._source = source

    async def on(self, proposals: Sequence[Proposal], reflection: Reflection, dataset: str) -> tuple[Proposal, ...]:
        """The proposals, each as it may be applied."""
        passed = tuple(_unless_instructing(proposal) for proposal in proposals)
        held = [proposal for proposal in passed if _rests_on_word(proposal, reflection)]
        if reflection.reliable or not held:
            return passed
        waiting = await self._waiting.pending(dataset, [PendingState.WAITING], "", MAX_WAITING)
        taught = [one for one in waiting if one.proposal.delta.type == "ADD"]
        texts = [one.delta.content for one in (*held, *(each.proposal for each in taught)) if one.delta.type == "ADD"]
        rule = _Rule(reflection, taught, await self._source.compare(texts))
        return tuple(await asyncio.to_thread(rule.all, passed))


@dataclass(frozen=True, slots=True)
class _Rule:
    reflection: Reflection
    waiting: Sequence[PendingChange]
    similarity: Similarity

    def all(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        return [self._held(one) if _rests_on_word(one, self.reflection) else one for one in proposals]

    def _held(self, proposal: Proposal) -> Proposal:
        """A lesson that waits, or the second trajectory it waited for."""
        if proposal.delta.type != "ADD":
            return replace(proposal, waits=WAITS_FOR_A_PERSON)
        own, lesson = self.reflection.trajectory_id, proposal.delta.content
        if quotes(lesson, self.reflection.query):
            # Two runs of one task are no two opinions on what holds for that task alone.
            return replace(proposal, waits=WAITS_FOR_A_PERSON)
        alike = [one for one in self.waiting if self.similarity.is_same(one.proposal.delta.content, lesson)]
        first = next((one for one in alike if own and one.source_trajectory not in ("", own)), None)
        if first is None:
            return replace(proposal, declined=WAITS_ALREADY) if alike else replace(proposal, waits=WAITS_FOR_A_SECOND)
        similarity = self.similarity.describe(first.proposal.delta.content, lesson)
        reason = f"a second trajectory teaches it ({similarity}); the first was {first.source_trajectory}"
        return replace(
            proposal,
            delta=proposal.delta.model_copy(update={"reasoning": reason}),
            sources=joined_sources(first.proposal.sources, proposal.sources),
        )


def _unless_instructing(proposal: Proposal) -> Proposal:
    """The proposal, which waits when a text from a run would speak to whoever reads the playbook."""
    phrase = instruction_in(proposal.delta.content)
    if not phrase or proposal.declined or proposal.delta.type == "DELETE":
        return proposal
    return replace(proposal, waits=WAITS_AS_INSTRUCTION.format(phrase=f'"{phrase}"'))


def _rests_on_word(proposal: Proposal, reflection: Reflection) -> bool:
    """Whether nothing but an agent's word backs a proposal that would change what is known.

    What rules found in what tools said stands however the run ended; a model's lesson may only look like it.
    """
    if proposal.declined or proposal.confirms or proposal.waits:
        return False
    attested = reflection.by_rules and is_attested(proposal.delta.content, reflection.query)
    return not attested
