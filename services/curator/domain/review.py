"""Pending changes, which wait for the decision of a person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from services.curator.domain.curation import Proposal


class PendingState(StrEnum):
    """The state of a pending change."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A proposal that waits, or waited, for review. Times are aware UTC."""

    id: str
    dataset: str
    proposal: Proposal
    base_revision: int
    author: str
    source_trajectory: str
    waits_because: str
    state: PendingState
    proposed: datetime
    expires: datetime
    decided_by: str = ""
    decision_reason: str = ""
