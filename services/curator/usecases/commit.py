"""Commit a batch of votes and proposals to a dataset: merge, hold for review, log, enforce the policy."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from chassis.logging import get_logger
from libs.storage.idempotency import IdempotencyKey
from services.curator.domain.curation import Operation, Proposal, Vote, VoteOutcome
from services.curator.domain.draft import Draft
from services.curator.domain.errors import DatasetDeleted
from services.curator.domain.log import Origin, RevisionKind, StoredBullet
from services.curator.domain.merge import UNKNOWN_BULLET, MergeTerms, count_votes, merge_deltas, summarize_changes
from services.curator.domain.policy import Policy, Trust
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.review_rules import WAITS_ON_REQUEST, find_wait_reason
from services.curator.domain.upkeep import evict, retire
from services.curator.domain.word_neighbours import WordNeighbours
from services.curator.usecases.ports import DatasetTransaction

UPKEEP_AUTHOR = "hansei"
ECHO_THRESHOLD = 0.8
"""The similarity from which a lesson repeats a bullet that was served to its trajectory."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EditBatch:
    """Votes and proposals of one request.

    The proposals are based on `base_revision` (None = the newest). `served` are the ids of the bullets that were served
    to their trajectory. `is_reliable` is False if only the agent itself reports the outcome. `threshold` is the
    similarity of words from which a new lesson equals one that was added after `base_revision` (None = only the policy
    decides). With `hold_for_review` every proposal waits for review, whatever the policy is.
    """

    origin: Origin
    proposals: Sequence[Proposal] = ()
    votes: Sequence[Vote] = ()
    base_revision: int | None = None
    served: frozenset[str] = frozenset()
    is_reliable: bool = True
    threshold: float | None = None
    hold_for_review: bool = False


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The outcome of a batch; `revision` is the newest one, upkeep included."""

    revision: int
    bullets_before: int
    bullets_after: int
    operations: tuple[Operation, ...]
    votes: tuple[VoteOutcome, ...]
    pending: tuple[PendingChange, ...] = ()


class PlaybookChanged(Exception):
    """Another commit changed bullets that the proposals edit, or that are near them."""


def run_once(
    key: IdempotencyKey, work: Callable[[DatasetTransaction], bytes], payload: bytes = b""
) -> Callable[[DatasetTransaction], bytes]:
    """Return `work` for one execution: a repeated request gets the stored response and changes nothing."""

    def run_unless_stored(dataset: DatasetTransaction) -> bytes:
        stored = dataset.find_response(key)
        if stored is not None:
            return stored
        response = work(dataset)
        dataset.store_response(key, response, payload)
        return response

    return run_unless_stored


def commit(
    dataset: DatasetTransaction, batch: EditBatch, *, always: bool = False, refuses_conflicts: bool = False
) -> CommitResult:
    """Merge the batch into the newest state as one revision, then enforce the policy of the dataset.

    A batch without changes makes no revision unless `always` (a curation is always logged, C-24).

    Raises DatasetDeleted if the dataset was deleted after the base revision, and with `refuses_conflicts`
    PlaybookChanged if a later commit changed a bullet that the batch edits.
    """
    if batch.base_revision is not None and batch.base_revision < dataset.deleted_revision:
        raise DatasetDeleted(f'dataset "{dataset.dataset}" was deleted after revision {batch.base_revision}')
    policy = dataset.policy
    bullets_before = dataset.bullets
    draft = dataset.create_draft()
    votes = count_votes(draft, batch.votes, is_reliable=batch.is_reliable)
    operations = merge_deltas(draft, batch.proposals, _merge_terms(dataset, policy, batch))
    if refuses_conflicts and any(operation.conflict for operation in operations):
        raise PlaybookChanged
    operations, pending = _hold_for_review(dataset, policy, batch, operations)
    _approve_confirmed_changes(dataset, batch, operations)
    _log_skipped(dataset.dataset, operations, votes)
    if always or not draft.is_empty:
        changed_bullets = [change.after for change in draft.changes if change.after]
        summary = summarize_changes(operations, votes)
        dataset.append(draft, batch.origin, summary, operations, votes)
        enforce_policy(dataset, policy, changed_bullets)
    return CommitResult(
        dataset.revision, bullets_before, dataset.bullets, tuple(operations), tuple(votes), tuple(pending)
    )


def _merge_terms(dataset: DatasetTransaction, policy: Policy, batch: EditBatch) -> MergeTerms:
    """Return the parameters of a merge; proposals of an unreliable batch get the trust LOW."""
    trust = policy.get_trust(batch.origin.author) if batch.is_reliable else Trust.LOW
    return MergeTerms(
        base_revision=batch.base_revision,
        served=batch.served,
        find_similar=_DuplicateFinder(dataset, policy, batch),
        wait_reason=lambda proposal: (
            WAITS_ON_REQUEST if batch.hold_for_review else find_wait_reason(policy, trust, proposal)
        ),
    )


class _DuplicateFinder:
    """Finds a bullet with nearly the lesson of an ADD, by words, because a transaction calls no model.

    Candidates are all bullets if the policy has a threshold; else the bullets added after the base revision, if the
    curator compares lessons itself; and always the bullets served to the trajectory, which must not teach them back.
    """

    def __init__(self, dataset: DatasetTransaction, policy: Policy, batch: EditBatch) -> None:
        thresholds = [value for value in (policy.duplicate_threshold, batch.threshold) if value is not None]
        self._threshold = min(thresholds, default=None)
        self._dataset = dataset
        compares_all = policy.duplicate_threshold is not None
        self._after_revision = -1 if compares_all or batch.base_revision is None else batch.base_revision
        self._served = batch.served
        self._neighbours: WordNeighbours | None = None
        self._next_slot = dataset.next_slot

    def __call__(self, draft: Draft, content: str) -> StoredBullet | None:
        if self._threshold is None and not self._served:
            return None
        threshold = ECHO_THRESHOLD if self._threshold is None else self._threshold
        nearest, score = self._select_candidates(draft).find_nearest(content)
        if nearest is None or score < threshold:
            return None
        present = draft.find(nearest.bullet.id)
        return present if present is not None and present.bullet.content == nearest.bullet.content else None

    def _list_new(self, draft: Draft) -> list[StoredBullet]:
        """Return the bullets that were added or edited after the base revision; a vote is no edit."""
        if self._after_revision < self._dataset.first_revision - 1:  # the log does not name them all
            changed = draft.list_bullets()
        else:
            is_base_newest = self._dataset.revision <= self._after_revision
            logged = [] if is_base_newest else self._dataset.list_changes_after(self._after_revision)
            newest = {change.slot: change.after for change in (*logged, *draft.changes)}
            changed = [stored for _, stored in sorted(newest.items()) if stored is not None]
        return [stored for stored in changed if stored.updated.revision > self._after_revision]

    def _select_candidates(self, draft: Draft) -> WordNeighbours:
        """Return the index of the candidates, with the bullets that this batch added."""
        if self._neighbours is None:
            draft.read_bullets(self._served)
            served = (draft.find(bullet_id) for bullet_id in sorted(self._served))
            candidates = {stored.slot: stored for stored in served if stored is not None}
            if self._threshold is not None:
                candidates |= {stored.slot: stored for stored in self._list_new(draft)}
            self._neighbours = WordNeighbours(candidates.values())
        if self._threshold is not None:
            added = (draft.find_edited_bullet(slot) for slot in range(self._next_slot, draft.next_slot))
            for stored in added:
                if stored is not None:
                    self._neighbours.put(stored)
            self._next_slot = draft.next_slot
        return self._neighbours


def _hold_for_review(
    dataset: DatasetTransaction, policy: Policy, batch: EditBatch, operations: Sequence[Operation]
) -> tuple[list[Operation], list[PendingChange]]:
    outcomes: list[Operation] = []
    pending: list[PendingChange] = []
    for operation in operations:
        if not operation.wait_reason:
            outcomes.append(operation)
            continue
        change = PendingChange(
            id=_compute_pending_id(dataset, batch, len(pending)),
            dataset=dataset.dataset,
            proposal=operation.proposal,
            base_revision=dataset.revision if batch.base_revision is None else batch.base_revision,
            author=batch.origin.author,
            source_trajectory=batch.origin.source_trajectory,
            review_reason=operation.wait_reason,
            state=PendingState.WAITING,
            # A microsecond between the changes of one batch keeps them in its order.
            proposed=dataset.now + timedelta(microseconds=len(pending)),
            expires=dataset.now + policy.pending_lifetime,
        )
        dataset.store_pending(change)
        pending.append(change)
        outcomes.append(
            replace(operation, skipped_reason=f"waits for review: {operation.wait_reason}", pending_id=change.id)
        )
    return outcomes, pending


def _approve_confirmed_changes(dataset: DatasetTransaction, batch: EditBatch, operations: Sequence[Operation]) -> None:
    """Approve the pending changes whose lessons the operations added to the playbook."""
    settled = {operation.proposal.settles for operation in operations if operation.bullet_id} - {""}
    if not settled:
        return
    for change in dataset.find_pending_changes(sorted(settled)):
        if change.state is PendingState.WAITING:
            reason = f"confirmed by trajectory {batch.origin.source_trajectory}"
            approved = replace(change, state=PendingState.APPROVED, decided_by=batch.origin.author)
            dataset.store_pending(replace(approved, decision_reason=reason))


def _compute_pending_id(dataset: DatasetTransaction, batch: EditBatch, index: int) -> str:
    """Return a UUID derived from the request, so that a repeated request has the same one."""
    if not batch.origin.request_id:
        return str(uuid.uuid4())
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{dataset.dataset}/{batch.origin.request_id}/{index}"))


def enforce_policy(dataset: DatasetTransaction, policy: Policy, touched: Sequence[StoredBullet]) -> None:
    """Retire the outvoted bullets among `touched` and evict bullets beyond the limits, as one revision."""
    draft = dataset.create_draft()
    retired = retire(draft, touched, policy)
    evicted = evict(draft, policy, dataset.count_tokens() if policy.max_tokens else 0)
    if draft.is_empty:
        return
    reasons = [f"{action}: {len(ids)}" for action, ids in (("retired", retired), ("evicted", evicted)) if ids]
    dataset.append(draft, Origin(RevisionKind.UPKEEP, UPKEEP_AUTHOR, ", ".join(reasons)), ", ".join(reasons))


def _log_skipped(dataset: str, operations: Sequence[Operation], votes: Sequence[VoteOutcome]) -> None:
    for operation in operations:
        if operation.skipped_reason:
            # To add nothing new is a decision of the curator; to change a bullet that is not there is an error (C-66).
            log = _log.info if operation.delta.type == "ADD" else _log.warning
            log("delta not applied", dataset=dataset, delta=operation.delta.type, reason=operation.skipped_reason)
    for vote in votes:
        if vote.skipped_reason:
            log = _log.warning if vote.skipped_reason == UNKNOWN_BULLET else _log.info  # C-59
            log("vote not counted", dataset=dataset, reason=vote.skipped_reason)
