"""What bulk learning speaks of: submissions, batches, trajectories to learn, and what came of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from chassis.errors import HanseiError, shortened
from hansei.gateway.v1 import gateway_service_pb2 as gateway

MAX_MESSAGE_CHARS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Any constant: names within it are ours.
_LEARNINGS = uuid.UUID("6f1b3a1e-0c54-4d6b-9d0a-6d8a4f3c2b11")


@dataclass(frozen=True, slots=True)
class Batch:
    """Neighbouring trajectories of a job that one worker learns in order: from `first` to `last`, both included."""

    batch_id: str
    key: str
    dataset: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A trajectory to learn, as Learn takes it, and how often that failed already."""

    request: gateway.LearnRequest
    attempts: int


@dataclass(frozen=True, slots=True)
class Learned:
    """What the curator committed for a trajectory."""

    edits: int
    votes: int
    revision: int
    changed: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. `passing`: another one may fare better, after `retry_after` seconds if that is said."""

    code: str
    reason: str
    message: str
    passing: bool
    retry_after: float | None = None

    @classmethod
    def of(cls, error: HanseiError, *, passing: bool) -> Failure:
        """The failure that an error of a service is."""
        message = shortened(error.message, MAX_MESSAGE_CHARS)
        return cls(error.code, error.reason, message, passing, error.retry_after)


class Ending(StrEnum):
    """What an attempt at learning a trajectory ended in; after FAILED it is made again."""

    LEARNED = "learned"
    FAILED = "failed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Stock:
    """How many jobs, and how many of their trajectories, are in each state, over all jobs that are kept."""

    jobs: Mapping[str, int]
    trajectories: Mapping[str, int]


def learning_id(job_id: str, position: int) -> str:
    """The `request_id` of one trajectory: the same whenever, and by whomever, it is learned."""
    return str(uuid.uuid5(_LEARNINGS, f"{job_id}/{position}"))


def utc_now() -> datetime:
    """The present time, aware."""
    return datetime.now(UTC)


def microseconds(moment: datetime) -> int:
    """An aware time as the tables keep it."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(stored: int) -> datetime:
    """The aware UTC time that the tables keep so."""
    return _EPOCH + timedelta(microseconds=stored)
