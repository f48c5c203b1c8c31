"""Changes that wait for a person: what waits, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from services.curator.domain.curation import Proposal


class PendingState(StrEnum):
    """Where a pending change stands."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A proposal that waits, or waited, for a person. Times are aware UTC."""

    id: str
    dataset: str
    proposal: Proposal
    base: int
    author: str
    source_trajectory: str
    waits_because: str
    state: PendingState
    proposed: datetime
    expires: datetime
    decided_by: str = ""
    decision_reason: str = ""
