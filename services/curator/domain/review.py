"""Pending changes, which wait for the decision of a person, and the records of evidence."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from services.curator.domain.curation import DeltaContextItem, Proposal
from services.curator.domain.evidence import Evidence


class PendingState(StrEnum):
    """The state of a pending change."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    STALE = "stale"
    EVIDENCE = "evidence"
    """A record of evidence; it waits for more tasks, not for a person."""


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A proposal that waits, or waited, for review, or a record of `evidence`. Times are aware UTC."""

    id: str
    dataset: str
    proposal: Proposal
    base_revision: int
    author: str
    source_trajectory: str
    review_reason: str
    state: PendingState
    proposed: datetime
    expires: datetime
    decided_by: str = ""
    decision_reason: str = ""
    evidence: Evidence | None = None


def build_evidence_id(dataset: str, operation: str) -> str:
    """Return the id of the pending change that stores the evidence on an operation."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{dataset}/evidence/{operation}"))


def hold_evidence(dataset: str, evidence: Evidence, now: datetime) -> PendingChange:
    """Return the pending change that stores a record of evidence."""
    nothing = DeltaContextItem(type="ADD", section="", content="", reasoning="evidence")
    return PendingChange(
        id=build_evidence_id(dataset, evidence.operation),
        dataset=dataset,
        proposal=Proposal(nothing),
        base_revision=0,
        author="",
        source_trajectory="",
        review_reason="",
        state=PendingState.EVIDENCE,
        proposed=now,
        expires=now,
        evidence=evidence,
    )
