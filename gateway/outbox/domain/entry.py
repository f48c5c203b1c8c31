"""Trajectories that wait for the archive."""

from __future__ import annotations

from dataclasses import dataclass

FINAL_CODES = frozenset(
    {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "NOT_FOUND", "ALREADY_EXISTS", "DATA_LOSS"}
)
"""Statuses after which another attempt cannot succeed."""
MAX_FAULTS = 10
"""Attempts that may end with INTERNAL, while the archive stores other trajectories, before one is given up."""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A request of the archive that is not delivered yet; `payload` is the serialized message."""

    number: int
    payload: bytes
