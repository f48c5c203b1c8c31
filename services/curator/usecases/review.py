"""DecidePendingChanges: approve or reject pending changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from chassis.errors import InvalidArgument, Violation, shorten
from services.curator.domain.curation import Operation
from services.curator.domain.errors import PendingChangeDecided
from services.curator.domain.log import Origin
from services.curator.domain.merge import MergeTerms, merge_deltas, summarize_changes
from services.curator.domain.review import PendingChange, PendingState
from services.curator.usecases.commit import enforce_policy
from services.curator.usecases.ports import DatasetTransaction


class ReviewDecision(StrEnum):
    """The decision of a person on pending changes."""

    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """The decided changes, and the newest revision."""

    revision: int
    changes: tuple[PendingChange, ...]


def decide(dataset: DatasetTransaction, ids: Sequence[str], decision: ReviewDecision, origin: Origin) -> DecisionResult:
    """Approve or reject pending changes, all or none.

    Approved changes are merged into the newest playbook, in one revision for each source trajectory, so that each can
    be revoked; a change whose bullet changed since becomes stale. Expired changes are marked and not applied. Raises
    PendingChangeNotFound, PendingChangeDecided, InvalidArgument for a rejection without a reason.
    """
    if decision is ReviewDecision.REJECT and not origin.reason.strip():
        problem = "a rejection needs a reason"
        raise InvalidArgument(problem, reason="REASON_MISSING", violations=[Violation("reason", problem)])
    waiting = dataset.find_pending_changes(list(dict.fromkeys(ids)))
    for change in waiting:
        if change.state is not PendingState.WAITING:
            raise PendingChangeDecided(f'pending change "{shorten(change.id)}" is already {change.state.value}')
    decided = {change.id: _mark_if_expired(change, dataset) for change in waiting}
    undecided = [change for change in decided.values() if change.state is PendingState.WAITING]
    if decision is ReviewDecision.REJECT:
        outcome = {change.id: PendingState.REJECTED for change in undecided}
    else:
        outcome = _apply_approved(dataset, undecided, origin)
    decided |= {
        change.id: replace(change, state=outcome[change.id], decided_by=origin.author, decision_reason=origin.reason)
        for change in undecided
    }
    for change in decided.values():
        dataset.store_pending(change)
    return DecisionResult(dataset.revision, tuple(decided.values()))


def _mark_if_expired(change: PendingChange, dataset: DatasetTransaction) -> PendingChange:
    return replace(change, state=PendingState.EXPIRED) if change.expires <= dataset.now else change


def _apply_approved(
    dataset: DatasetTransaction, changes: Sequence[PendingChange], origin: Origin
) -> dict[str, PendingState]:
    """Append the changes as one revision for each trajectory; return the state of each change."""
    states: dict[str, PendingState] = {}
    for trajectory in dict.fromkeys(change.source_trajectory for change in changes):
        group = [change for change in changes if change.source_trajectory == trajectory]
        draft = dataset.create_draft()
        operations: list[Operation] = []
        for change in group:
            approved = replace(change.proposal, wait_reason="")
            [operation] = merge_deltas(draft, [approved], MergeTerms(base_revision=change.base_revision))
            operations.append(operation)
            # An approved change without effect is approved: its lesson is there, or its bullet was removed.
            states[change.id] = PendingState.STALE if operation.conflict else PendingState.APPROVED
        if not draft.is_empty:
            changed_bullets = [change.after for change in draft.changes if change.after]
            summary = summarize_changes(operations)
            dataset.append(draft, replace(origin, source_trajectory=trajectory), summary, operations)
            enforce_policy(dataset, dataset.policy, changed_bullets)
    return states
