"""Trajectories that wait for the archive."""

from __future__ import annotations

from dataclasses import dataclass

FINAL_CODES = frozenset(
    {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "NOT_FOUND", "ALREADY_EXISTS", "DATA_LOSS"}
)
"""Statuses after which another attempt cannot succeed."""
MAX_FAULTS = 10
"""Attempts that may end with a fault of the archive itself, INTERNAL, before a trajectory is given up."""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A request of the archive that is not delivered yet; `payload` is the serialized message."""

    number: int
    payload: bytes


def is_final(code: str, faults: int) -> bool:
    """Return whether a trajectory is dropped after an attempt with this status and these INTERNAL errors."""
    return code in FINAL_CODES or (code == "INTERNAL" and faults >= MAX_FAULTS)
