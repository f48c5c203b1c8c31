"""Hold back proposals from trajectories whose outcome nobody but the agent confirms, in every mode of review.

Such a trajectory may teach wrong lessons. So its new lessons wait until a second trajectory teaches the same, its edits
wait for a person, and its votes do not count (see `merge`). The output of tools is untrusted: a lesson that quotes it
waits as well, unless a reward, a test or a known answer determined the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from services.curator.domain.curation import Proposal, Reflection
from services.curator.domain.lessons import quotes
from services.curator.domain.merge import join_sources
from services.curator.domain.planted_instructions import find_instruction
from services.curator.domain.review import PendingChange
from services.curator.domain.review_rules import WAITS_AS_INSTRUCTION
from services.curator.domain.similarity import Similarity, find_subject
from services.curator.usecases.neighbourhood import load_waiting_additions
from services.curator.usecases.ports import PlaybookStore
from services.curator.usecases.similarity import SimilaritySource

WAITS_FOR_A_SECOND = "only the agent itself reports the outcome; the lesson waits for a second trajectory"
QUOTATION_WAITS = (
    "it quotes the output of a tool and no trusted signal confirms the outcome; it waits for a second source"
)
WAITS_FOR_SECOND_SOURCE = (WAITS_FOR_A_SECOND, QUOTATION_WAITS)
WAITS_ALREADY = "the lesson already waits for a second trajectory"
WAITS_FOR_A_PERSON = "only the agent itself reports the outcome; a person decides"
INLINE_CHARACTERS = 5_000
"""Characters of lessons that are searched for instructions in less time than a thread hand-over."""


class CorroborationRule:
    """Passes proposals on that more than one trajectory or a person confirms; the others wait."""

    def __init__(self, store: PlaybookStore, source: SimilaritySource) -> None:
        self._store = store
        self._source = source

    async def mark_uncorroborated(
        self, proposals: Sequence[Proposal], reflection: Reflection, dataset: str
    ) -> tuple[Proposal, ...]:
        """Return all proposals; those that must not be committed yet have the reason."""
        characters = sum(len(proposal.delta.content) for proposal in proposals)
        is_short = characters <= INLINE_CHARACTERS
        searched = _hold_all(proposals) if is_short else await asyncio.to_thread(_hold_all, proposals)
        uncorroborated = [proposal for proposal in searched if _is_uncorroborated(proposal, reflection)]
        if not uncorroborated:
            return searched
        waiting = await load_waiting_additions(self._store, dataset)
        compared = (*uncorroborated, *(change.proposal for change in waiting))
        texts = [proposal.delta.content for proposal in compared if proposal.delta.type == "ADD"]
        similarity = await self._source.compare(texts)

        def hold_uncorroborated() -> tuple[Proposal, ...]:
            return tuple(
                _hold(proposal, reflection, waiting, similarity)
                if _is_uncorroborated(proposal, reflection)
                else proposal
                for proposal in searched
            )

        return await asyncio.to_thread(hold_uncorroborated)


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
        return replace(proposal, wait_reason=QUOTATION_WAITS if find_subject(content) else WAITS_FOR_A_SECOND)
    described = similarity.describe(first.proposal.delta.content, content)
    reason = f"a second trajectory teaches it ({described}); the first was {first.source_trajectory}"
    return replace(
        proposal,
        delta=proposal.delta.model_copy(update={"reasoning": reason}),
        sources=join_sources(first.proposal.sources, proposal.sources),
        settles=first.id,
    )


def _hold_all(proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    return tuple(map(hold_instruction, proposals))


def hold_instruction(proposal: Proposal) -> Proposal:
    """Return the proposal, held for review if its text gives orders to the model that reads the playbook."""
    if proposal.decline_reason or proposal.delta.type == "DELETE":
        return proposal
    phrase = find_instruction(proposal.delta.content)
    return replace(proposal, wait_reason=WAITS_AS_INSTRUCTION.format(phrase=f'"{phrase}"')) if phrase else proposal


def _is_uncorroborated(proposal: Proposal, reflection: Reflection) -> bool:
    """Return True if only the agent, or only the output of a tool, supports an applicable proposal."""
    if reflection.has_trusted_signal or proposal.decline_reason or proposal.confirmed_id or proposal.wait_reason:
        return False
    return not reflection.is_reliable or find_subject(proposal.delta.content) is not None
