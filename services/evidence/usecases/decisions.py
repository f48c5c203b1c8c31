"""Carry decisions over to the playbook: remove harmful bullets, and undo decisions."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from chassis.errors import DeadlineExceeded, HanseiError, NotFound, Unavailable
from chassis.logging import get_logger
from services.evidence.domain.effects import estimate_effect
from services.evidence.domain.intervals import compute_interval
from services.evidence.domain.trials import INTERVAL_ERROR, BulletDecision, BulletState
from services.evidence.usecases.ports import AddedBullet, EvidenceStore, PlaybookEditor

MOST_AT_ONCE = 100
_NAMESPACE = uuid.UUID("6f0f4c1e-2b0a-4f53-9a57-1d5ef3d4d0aa")

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UndoneDecision:
    """The decision that put a bullet back on trial, with its number, and the bullet that was added again."""

    number: int
    decision: BulletDecision
    added: AddedBullet | None


class DecisionPublisher:
    """Removes harmful bullets from their playbooks, each in a revision by the author `evidence`."""

    def __init__(self, store: EvidenceStore, playbooks: PlaybookEditor) -> None:
        self._store = store
        self._playbooks = playbooks

    async def publish(self) -> int:
        """Remove from the playbooks the bullets that were decided to be harmful; return the number of removals.

        While the curator is unavailable the decisions wait. Raises `HanseiError` if the store is unavailable.
        """
        published = failed = 0
        while removals := await self._store.list_unpublished_removals(MOST_AT_ONCE, failed):
            for dataset, number, decision in removals:
                try:
                    await self._remove(dataset, number, decision)
                except HanseiError as error:
                    _log.warning("harmful bullet not removed; trying again later", dataset=dataset, error=str(error))
                    if isinstance(error, Unavailable | DeadlineExceeded):  # the curator, for all datasets
                        return published
                    failed += 1
                else:
                    published += 1
        return published

    async def undo(self, dataset: str, number: int, author: str) -> UndoneDecision:
        """Put the bullet of a decision back on trial; add it again if it was removed.

        A removal that is not published is made first: another replica may be about to make it. One that waits for a
        review is withdrawn.

        Raises `DecisionNotFound`, `DecisionNotCurrent`, and the errors of the curator.
        """
        decision = await self._store.find_decision(dataset, number)
        revision = decision.revision
        is_harmful = decision.after is BulletState.HARMFUL
        if is_harmful and not decision.is_published:
            revision = await self._remove(dataset, number, decision)
        undone = await self._store.undo_decision(dataset, number)
        reason = f"decision {number} of trials was undone"
        if is_harmful and not revision:
            revision = await self._withdraw(dataset, number, decision, author, reason)
        added = None
        if revision:
            request_id = make_request_id("add", dataset, number, decision)
            added = await self._playbooks.add_again(request_id, dataset, decision.bullet_id, author, reason)
        return UndoneDecision(*undone, added)

    async def _remove(self, dataset: str, number: int, decision: BulletDecision) -> int:
        """Remove the bullet of a decision; return the revision, 0 if it waits for a review or is not there any more."""
        reason = await self._describe(dataset, decision)
        request_id = make_request_id("remove", dataset, number, decision)
        try:
            revision = await self._playbooks.remove(
                request_id, dataset, decision.bullet_id, decision.text_version, reason
            )
        except NotFound:
            revision = 0  # the dataset was deleted
        await self._store.set_published(dataset, number, revision)
        return revision

    async def _withdraw(self, dataset: str, number: int, decision: BulletDecision, author: str, reason: str) -> int:
        """Withdraw the removal of a bullet; return the revision if it was made after a review, else 0."""
        request_id = make_request_id("withdraw", dataset, number, decision)
        removal_reason = await self._describe(dataset, decision)
        try:
            return await self._playbooks.withdraw_removal(
                request_id, dataset, decision.bullet_id, removal_reason, author, reason
            )
        except NotFound:
            return 0  # the dataset was deleted

    async def _describe(self, dataset: str, decision: BulletDecision) -> str:
        trials = await self._store.find_trials(dataset)
        return describe(decision, 1.0 - trials.policy.bullet_holdout) if trials else "harmful by trials"


def make_request_id(change: str, dataset: str, number: int, decision: BulletDecision) -> str:
    """Return the request id of a change that follows from a decision, the same at every try."""
    return str(uuid.uuid5(_NAMESPACE, f"{change}\n{dataset}\n{number}\n{decision.time.isoformat()}"))


def describe(decision: BulletDecision, probability: float) -> str:
    """Return the reason of a removal: the estimate, the interval and the counts."""
    statistics = decision.statistics
    lower, upper = compute_interval(statistics, probability, INTERVAL_ERROR)
    difference = 100.0 * float(estimate_effect(statistics))
    return (
        f"harmful by trials: {difference:+.0f} points of success,"
        f" 95 % interval {100 * lower:+.0f} to {100 * upper:+.0f},"
        f" {statistics.served:.0f} sessions with it and {statistics.withheld:.0f} without"
    )
