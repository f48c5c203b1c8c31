"""Find out whether other commits changed the neighbourhood of proposals since they were made."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from services.curator.domain.curation import Proposal
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import PlaybookStore
from services.curator.usecases.similarity import SimilaritySource

MAX_WAITING = 1_000
"""Waiting changes that are compared with new lessons."""


async def load_waiting_additions(store: PlaybookStore, dataset: str) -> Sequence[PendingChange]:
    """Return the additions that wait for review, oldest first."""
    pending = await store.list_pending_changes(dataset, [PendingState.WAITING], "", MAX_WAITING)
    return [change for change in pending if change.proposal.delta.type == "ADD"]


class Neighbourhood:
    """Compares proposals with the bullets and the waiting lessons that are newer than they are."""

    def __init__(self, store: PlaybookStore, source: SimilaritySource) -> None:
        self._store = store
        self._source = source

    async def has_changed(
        self, proposals: Sequence[Proposal], known_waiting: Collection[str], revision: int, newest: Snapshot
    ) -> bool:
        """Return whether a bullet after `revision`, or a lesson that waits since, is near a text of the proposals.

        Raises SimilarityUnavailable.
        """
        texts = [proposal.delta.content for proposal in proposals if _proposes_text(proposal)]
        added = [stored.bullet.content for stored in newest.list_bullets() if stored.updated.revision > revision]
        waiting = await load_waiting_additions(self._store, newest.dataset)
        added += [change.proposal.delta.content for change in waiting if change.id not in known_waiting]
        if not texts or not added:
            return False
        similarity = await self._source.compare([*texts, *added])

        def compare() -> bool:
            threshold = similarity.thresholds.same_subject
            return any(similarity.compute_cosine(text, other) >= threshold for text in texts for other in added)

        return await asyncio.to_thread(compare)


def _proposes_text(proposal: Proposal) -> bool:
    return proposal.delta.type != "DELETE" and not proposal.decline_reason and bool(proposal.delta.content.strip())
