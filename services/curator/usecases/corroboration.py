"""Hold back proposals from trajectories whose outcome only the agent itself reports.

Such a trajectory may teach wrong lessons. So its new lessons wait until a second trajectory teaches the same, its edits
wait for a person, and its votes do not count (see `merge`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from services.curator.domain.curation import Proposal, Reflection
from services.curator.domain.lessons import is_attested, quotes
from services.curator.domain.merge import join_sources
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.review_rules import WAITS_AS_INSTRUCTION, find_instruction
from services.curator.domain.similarity import Similarity
from services.curator.usecases.neighbourhood import MAX_WAITING
from services.curator.usecases.ports import PlaybookStore
from services.curator.usecases.similarity import SimilaritySource

WAITS_FOR_A_SECOND = "only the agent itself reports the outcome; the lesson waits for a second trajectory"
WAITS_ALREADY = "the lesson already waits for a second trajectory"
WAITS_FOR_A_PERSON = "only the agent itself reports the outcome; a person decides"


class CorroborationRule:
    """Passes proposals on that more than one trajectory or a person confirms; the others wait."""

    def __init__(self, store: PlaybookStore, source: SimilaritySource) -> None:
        self._store = store
        self._source = source

    async def mark_uncorroborated(
        self, proposals: Sequence[Proposal], reflection: Reflection, dataset: str
    ) -> tuple[Proposal, ...]:
        """Return all proposals; those that must not be committed yet have the reason."""
        proposals = tuple(hold_instruction(proposal) for proposal in proposals)
        uncorroborated = [proposal for proposal in proposals if _is_uncorroborated(proposal, reflection)]
        if reflection.is_reliable or not uncorroborated:
            return proposals
        pending = await self._store.pending(dataset, [PendingState.WAITING], "", MAX_WAITING)
        waiting = [change for change in pending if change.proposal.delta.type == "ADD"]
        compared = (*uncorroborated, *(change.proposal for change in waiting))
        texts = [proposal.delta.content for proposal in compared if proposal.delta.type == "ADD"]
        similarity = await self._source.compare(texts)

        def hold_all() -> tuple[Proposal, ...]:
            return tuple(
                _hold(proposal, reflection, waiting, similarity)
                if _is_uncorroborated(proposal, reflection)
                else proposal
                for proposal in proposals
            )

        return await asyncio.to_thread(hold_all)


def _hold(
    proposal: Proposal, reflection: Reflection, waiting: Sequence[PendingChange], similarity: Similarity
) -> Proposal:
    """Return the proposal with a reason to wait, or with both sources if it is the second to teach its lesson."""
    content, trajectory = proposal.delta.content, reflection.trajectory_id
    confirmed = next((change for change in waiting if change.id == proposal.settles), None)
    if confirmed is not None:
        is_independent = trajectory and confirmed.source_trajectory not in ("", trajectory)
        return proposal if is_independent else replace(proposal, decline_reason=WAITS_ALREADY)
    # Two trajectories of one task are not independent evidence for a lesson that holds for this task only.
    if proposal.delta.type != "ADD" or quotes(content, reflection.query):
        return replace(proposal, wait_reason=WAITS_FOR_A_PERSON)
    same = [change for change in waiting if similarity.is_same(change.proposal.delta.content, content)]
    others = (change for change in same if trajectory and change.source_trajectory not in ("", trajectory))
    first = next(others, None)
    if first is None and same:
        return replace(proposal, decline_reason=WAITS_ALREADY)
    if first is None:
        return replace(proposal, wait_reason=WAITS_FOR_A_SECOND)
    described = similarity.describe(first.proposal.delta.content, content)
    reason = f"a second trajectory teaches it ({described}); the first was {first.source_trajectory}"
    return replace(
        proposal,
        delta=proposal.delta.model_copy(update={"reasoning": reason}),
        sources=join_sources(first.proposal.sources, proposal.sources),
        settles=first.id,
    )


def hold_instruction(proposal: Proposal) -> Proposal:
    """Return the proposal, held for review if its text gives orders to the model that reads the playbook."""
    phrase = find_instruction(proposal.delta.content)
    if not phrase or proposal.decline_reason or proposal.delta.type == "DELETE":
        return proposal
    return replace(proposal, wait_reason=WAITS_AS_INSTRUCTION.format(phrase=f'"{phrase}"'))


def _is_uncorroborated(proposal: Proposal, reflection: Reflection) -> bool:
    """Return True if only the agent supports an applicable proposal.

    Lessons that rules found in responses of tools always hold; a model's lesson may only look like one.
    """
    if proposal.decline_reason or proposal.confirmed_id or proposal.wait_reason:
        return False
    return not (reflection.is_from_rules and is_attested(proposal.delta.content, reflection.query))
