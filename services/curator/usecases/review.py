"""DecidePendingChanges: a person lets proposals into the playbook, or keeps them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from chassis.errors import InvalidArgument, Violation, shorten
from services.curator.domain.curation import Operation, summarised
from services.curator.domain.errors import PendingChangeDecided
from services.curator.domain.log import Origin
from services.curator.domain.merge import Terms, merge_deltas
from services.curator.domain.review import PendingChange, PendingState
from services.curator.usecases.commit import keep_house
from services.curator.usecases.ports import DatasetTransaction


class Verdict(StrEnum):
    """What to do with pending changes."""

    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Decided:
    """The pending changes as they stand now, and the newest revision."""

    revision: int
    changes: tuple[PendingChange, ...]


def decide(dataset: DatasetTransaction, ids: Sequence[str], verdict: Verdict, origin: Origin) -> Decided:
    """Approves or rejects pending changes, all or none.

    Approved ones are merged into the playbook as it is now, in one revision per source trajectory, so that each can be
    revoked; one whose bullet changed since it was proposed becomes stale. Expired ones become so and are not applied.
    Errors: PendingChangeNotFound, PendingChangeDecided, InvalidArgument for a rejection without a reason.
    """
    if verdict is Verdict.REJECT and not origin.reason.strip():
        problem = "a rejection needs a reason"
        raise InvalidArgument(problem, reason="REASON_MISSING", violations=[Violation("reason", problem)])
    waiting = dataset.pending(list(dict.fromkeys(ids)))
    for change in waiting:
        if change.state is not PendingState.WAITING:
            raise PendingChangeDecided(f'pending change "{shorten(change.id)}" is {change.state.value} already')
    decided = {change.id: _expired(change, dataset) for change in waiting}
    live = [change for change in decided.values() if change.state is PendingState.WAITING]
    if verdict is Verdict.REJECT:
        outcome = {change.id: PendingState.REJECTED for change in live}
    else:
        outcome = _approved(dataset, live, origin)
    decided |= {
        change.id: replace(change, state=outcome[change.id], decided_by=origin.author, decision_reason=origin.reason)
        for change in live
    }
    for change in decided.values():
        dataset.keep_pending(change)
    return Decided(dataset.revision, tuple(decided.values()))


def _expired(change: PendingChange, dataset: DatasetTransaction) -> PendingChange:
    return replace(change, state=PendingState.EXPIRED) if change.expires <= dataset.now else change


def _approved(dataset: DatasetTransaction, changes: Sequence[PendingChange], origin: Origin) -> dict[str, PendingState]:
    states: dict[str, PendingState] = {}
    for trajectory in dict.fromkeys(change.source_trajectory for change in changes):
        group = [change for change in changes if change.source_trajectory == trajectory]
        draft = dataset.draft()
        operations: list[Operation] = []
        for change in group:
            approved = replace(change.proposal, waits="")
            [operation] = merge_deltas(draft, [approved], Terms(base=change.base))
            operations.append(operation)
            # What a person approved and is there already, or was removed meanwhile, is done all the same.
            states[change.id] = PendingState.STALE if operation.conflict else PendingState.APPROVED
        if not draft.empty:
            touched = [one.after for one in draft.changes if one.after]
            summary = summarised(change.proposal.delta for change in group)
            dataset.append(draft, replace(origin, source_trajectory=trajectory), summary, operations)
            keep_house(dataset, dataset.policy, touched)
    return states
