"""How a batch of votes and proposals enters a dataset, whoever sends it: merge, review, log, upkeep."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from chassis.logging import get_logger
from libs.storage.idempotency import IdempotencyKey
from services.curator.domain.curation import Operation, Proposal, Vote, VoteOutcome, summarised
from services.curator.domain.draft import Draft
from services.curator.domain.gate import waits_because
from services.curator.domain.log import Kind, Origin, Stored
from services.curator.domain.merge import Terms, count_votes, merge_deltas
from services.curator.domain.neighbours import Neighbours
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.rules import Policy, Trust
from services.curator.domain.upkeep import evict, retire
from services.curator.usecases.ports import DatasetTransaction

UPKEEP_AUTHOR = "hansei"
# From this similarity on a lesson only says again what its trajectory was given.
ECHO = 0.8

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one caller wants to change in a dataset.

    `base` is the revision the proposals were made against (None = the newest); `served` the ids of the bullets their
    trajectory was given; `reliable` is False when nothing but the agent's own word says how the run ended; `threshold`
    is the similarity of words from which a new lesson is one that came after `base`, which the curator could not know
    (None = only the dataset's policy says what is the same).
    """

    origin: Origin
    proposals: Sequence[Proposal] = ()
    votes: Sequence[Vote] = ()
    base: int | None = None
    served: frozenset[str] = frozenset()
    reliable: bool = True
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch did; `revision` is the newest one after it, upkeep included."""

    revision: int
    bullets_before: int
    bullets_after: int
    operations: tuple[Operation, ...]
    votes: tuple[VoteOutcome, ...]
    pending: tuple[PendingChange, ...] = ()

    @property
    def conflicts(self) -> list[Operation]:
        """The operations that lost to a later change."""
        return [operation for operation in self.operations if operation.conflict]


def run_once(
    key: IdempotencyKey, work: Callable[[DatasetTransaction], bytes], payload: bytes = b""
) -> Callable[[DatasetTransaction], bytes]:
    """Return `work` such that a repeated request gets the stored response and changes nothing (idea 3)."""

    def run(dataset: DatasetTransaction) -> bytes:
        stored = dataset.stored_response(key)
        if stored is not None:
            return stored
        response = work(dataset)
        dataset.store_response(key, response, payload)
        return response

    return run


def commit(dataset: DatasetTransaction, batch: Batch, *, always: bool = False) -> Committed:
    """Merges the batch into the newest state as one revision, then applies the dataset's own rules.

    A batch that changes nothing makes no revision unless `always` (a curation leaves its trace, C-24).
    """
    policy = dataset.policy
    bullets_before = dataset.bullets
    draft = dataset.draft()
    votes = count_votes(draft, batch.votes, reliable=batch.reliable)
    operations = merge_deltas(draft, batch.proposals, _terms(dataset, policy, batch))
    operations, pending = _kept_for_review(dataset, policy, batch, operations)
    _log_skipped(dataset.dataset, operations, votes)
    if always or not draft.empty:
        touched = [change.after for change in draft.changes if change.after]
        summary = summarised(proposal.delta for proposal in batch.proposals)
        dataset.append(draft, batch.origin, summary, operations, votes)
        keep_house(dataset, policy, touched)
    return Committed(dataset.revision, bullets_before, dataset.bullets, tuple(operations), tuple(votes), tuple(pending))


def _terms(dataset: DatasetTransaction, policy: Policy, batch: Batch) -> Terms:
    trust = policy.trust_of(batch.origin.author) if batch.reliable else Trust.LOW
    return Terms(
        base=batch.base,
        served=batch.served,
        similar=_Similar(dataset, policy, batch),
        waits=lambda proposal: waits_because(policy, trust, proposal),
    )


class _Similar:
    """Finds the bullet that says nearly what an ADD says, by words: a transaction asks nobody.

    Among all bullets where the policy has a threshold for that; else among those that came after the curator read the
    playbook, if it compares lessons itself; and in any case among those the trajectory was given: a run must not teach
    a lesson back in other words (the loop guard).
    """

    def __init__(self, dataset: DatasetTransaction, policy: Policy, batch: Batch) -> None:
        thresholds = [one for one in (policy.duplicate_threshold, batch.threshold) if one is not None]
        self._threshold = min(thresholds, default=None)
        self._known_until = -1 if policy.duplicate_threshold is not None or batch.base is None else batch.base
        self._served = batch.served
        self._neighbours: Neighbours | None = None
        self._next_slot = dataset.next_slot

    def __call__(self, draft: Draft, content: str) -> Stored | None:
        if self._threshold is None and not self._served:
            return None
        threshold = ECHO if self._threshold is None else self._threshold
        found, score = self._known(draft).nearest(content)
        if found is None or score < threshold:
            return None
        standing = draft.find(found.bullet.id)
        return standing if standing is not None and standing.bullet.content == found.bullet.content else None

    def _known(self, draft: Draft) -> Neighbours:
        """The bullets to compare with; those this batch added are among them when all are."""
        if self._neighbours is None:
            served = (draft.find(bullet_id) for bullet_id in sorted(self._served))
            compared = {stored.slot: stored for stored in served if stored is not None}
            if self._threshold is not None:
                new = (stored for stored in draft.everything() if stored.updated.revision > self._known_until)
                compared |= {stored.slot: stored for stored in new}
            self._neighbours = Neighbours(compared.values())
        if self._threshold is not None:
            added = (draft.edited(slot) for slot in range(self._next_slot, draft.next_slot))
            for stored in added:
                if stored is not None:
                    self._neighbours.put(stored)
            self._next_slot = draft.next_slot
        return self._neighbours


def _kept_for_review(
    dataset: DatasetTransaction, policy: Policy, batch: Batch, operations: Sequence[Operation]
) -> tuple[list[Operation], list[PendingChange]]:
    kept: list[Operation] = []
    pending: list[PendingChange] = []
    for operation in operations:
        if not operation.waits:
            kept.append(operation)
            continue
        change = PendingChange(
            id=_pending_id(dataset, batch, len(pending)),
            dataset=dataset.dataset,
            proposal=operation.proposal,
            base=dataset.revision if batch.base is None else batch.base,
            author=batch.origin.author,
            source_trajectory=batch.origin.source_trajectory,
            waits_because=operation.waits,
            state=PendingState.WAITING,
            # Those of one batch are listed in its order: each is a microsecond younger than the one before.
            proposed=dataset.now + timedelta(microseconds=len(pending)),
            expires=dataset.now + policy.pending_lifetime,
        )
        dataset.keep_pending(change)
        pending.append(change)
        kept.append(replace(operation, skipped=f"waits for review: {operation.waits}", pending_id=change.id))
    return kept, pending


def _pending_id(dataset: DatasetTransaction, batch: Batch, index: int) -> str:
    """The id of the batch's n-th waiting change: a uuid that follows from the request, so a repeat names the same."""
    if not batch.origin.request_id:
        return str(uuid.uuid4())
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{dataset.dataset}/{batch.origin.request_id}/{index}"))


def keep_house(dataset: DatasetTransaction, policy: Policy, touched: Sequence[Stored]) -> None:
    """Retires what the votes of this batch turned against and evicts what exceeds the budget, as one revision."""
    draft = dataset.draft()
    retired = retire(draft, touched, policy)
    evicted = evict(draft, policy, dataset.tokens() if policy.max_tokens else 0)
    if draft.empty:
        return
    reasons = [f"{what}: {len(ids)}" for what, ids in (("retired", retired), ("evicted", evicted)) if ids]
    dataset.append(draft, Origin(Kind.UPKEEP, UPKEEP_AUTHOR, ", ".join(reasons)), ", ".join(reasons))


def _log_skipped(dataset: str, operations: Sequence[Operation], votes: Sequence[VoteOutcome]) -> None:
    for operation in operations:
        if operation.skipped:
            _log.warning("delta not applied", dataset=dataset, delta=operation.delta.type, reason=operation.skipped)
    for vote in votes:
        if vote.skipped:
            _log.warning("vote not counted", dataset=dataset, reason=vote.skipped)
