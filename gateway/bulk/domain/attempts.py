"""Attempts at learning a trajectory, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chassis.errors import HanseiError, shorten

MAX_MESSAGE_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class PendingTrajectory:
    """A trajectory to learn: a serialized QueuedTrajectory, and the number of failed attempts."""

    job_id: str
    dataset: str
    max_iterations: int | None
    payload: bytes
    attempts: int


@dataclass(frozen=True, slots=True)
class TrajectoryCommit:
    """The commit of the curator for a trajectory."""

    edits: int
    votes: int
    revision: int
    changed: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an attempt failed. Another attempt at a transient one may succeed, after `retry_after` seconds."""

    code: str
    reason: str
    message: str
    is_transient: bool
    retry_after: float | None = None

    @property
    def is_outage(self) -> bool:
        """Return whether a service was unavailable, so that the trajectory was not tried."""
        return self.code == "UNAVAILABLE"

    @classmethod
    def from_error(cls, error: HanseiError, *, is_transient: bool) -> Failure:
        """Return the failure of an error of a service."""
        message = shorten(error.message, MAX_MESSAGE_CHARS)
        return cls(error.code, error.reason, message, is_transient, error.retry_after)


@dataclass(slots=True)
class Outage:
    """The failures of a trajectory, one after another, because a service was unavailable."""

    began: float | None = None
    failures: int = 0

    def tolerates(self, outcome: TrajectoryCommit | Failure, now: float, limit: float) -> bool:
        """Count an outcome at a time; return whether it is an outage that has lasted less than `limit` seconds."""
        if isinstance(outcome, TrajectoryCommit) or not outcome.is_outage:
            self.began, self.failures = None, 0
            return False
        self.began = now if self.began is None else self.began
        self.failures += 1
        return now - self.began < limit


class AttemptResult(StrEnum):
    """The result of an attempt; a FAILED one is repeated."""

    LEARNED = "learned"
    FAILED = "failed"
    DEAD = "dead"


def classify_outcome(attempt: int, attempts: int | None, outcome: TrajectoryCommit | Failure) -> AttemptResult:
    """Return the result of an attempt, counted from 1, of at most `attempts`."""
    if isinstance(outcome, TrajectoryCommit):
        return AttemptResult.LEARNED
    return (
        AttemptResult.FAILED
        if outcome.is_transient and (attempts is None or attempt < attempts)
        else AttemptResult.DEAD
    )
