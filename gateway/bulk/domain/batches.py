"""Batches: neighbouring trajectories of a job that one worker learns in order."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BATCH = 50
# Any constant: the namespace of the ids below.
_NAMESPACE = uuid.UUID("6f1b3a1e-0c54-4d6b-9d0a-6d8a4f3c2b11")


@dataclass(frozen=True, slots=True)
class Batch:
    """The trajectories of a job at the positions `first` to `last`, both included."""

    batch_id: str
    key: str
    dataset: str
    first: int
    last: int


def split_positions(positions: Sequence[int], concurrency: int) -> list[Sequence[int]]:
    """Return positions as batches: large ones cost the queue less, small ones let `concurrency` be learned at once."""
    size = min(MAX_BATCH, max(1, len(positions) // (4 * concurrency)))
    return [positions[start : start + size] for start in range(0, len(positions), size)]


def build_generation_prefix(key: str, generation: int) -> str:
    """Return the prefix of the ids of all batches of a generation."""
    return f"{key}/{generation}/"


def learn_request_id(job_id: str, position: int) -> str:
    """Return the idempotency key of a trajectory that was submitted without one: the same in every replica."""
    return str(uuid.uuid5(_NAMESPACE, f"{job_id}/{position}"))
