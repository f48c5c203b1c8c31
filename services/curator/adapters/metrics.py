"""Metrics of the curator: revisions, deltas, votes, embedded texts, and changes by state of review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Observation

from chassis.telemetry import meter
from services.curator.domain.curation import Operation
from services.curator.domain.log import Revision
from services.curator.domain.review import PendingState

_revisions = meter.create_counter("hansei.playbook.revisions", unit="{revision}", description="Revisions committed")
_deltas = meter.create_counter("hansei.playbook.deltas", unit="{delta}", description="Deltas by outcome")
_votes = meter.create_counter("hansei.playbook.votes", unit="{vote}", description="Votes by outcome")
_embeddings = meter.create_counter(
    "hansei.playbook.embeddings",
    unit="{text}",
    description="New texts committed, by whether their embedding was committed with them",
)
_pending: dict[PendingState, int] = {}


def count_revision(revision: Revision) -> None:
    """Count a committed revision, its deltas and votes."""
    _revisions.add(1, {"kind": revision.origin.kind.value})
    for operation in revision.operations:
        _deltas.add(1, {"type": operation.delta.type, "outcome": _name_outcome(operation)})
    for vote in revision.votes:
        _votes.add(1, {"tag": vote.vote.tag, "counted": vote.applied})


def count_new_texts(embedded: int, missing: int) -> None:
    """Count the new texts of a write, with and without a vector."""
    if embedded:
        _embeddings.add(embedded, {"outcome": "embedded"})
    if missing:
        _embeddings.add(missing, {"outcome": "missing"})


def record_pending(states: Mapping[PendingState, int]) -> None:
    """Set the number of changes in each state of review, over all datasets."""
    _pending.clear()
    _pending.update(states)


def _name_outcome(operation: Operation) -> str:
    if operation.applied:
        return "applied"
    if operation.conflict:
        return "conflict"
    return "waiting" if operation.pending_id else "skipped"


def _observe_pending(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(_pending.get(state, 0), {"state": state.value}) for state in PendingState]


meter.create_observable_gauge(
    "hansei.playbook.pending", [_observe_pending], unit="{change}", description="Changes by state of review"
)
