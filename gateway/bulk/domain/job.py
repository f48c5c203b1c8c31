"""Jobs, their states and their dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class JobState(StrEnum):
    """The state of a job."""

    RUNNING = "running"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"

    @classmethod
    def from_counts(cls, *, waiting: int, dead: int, cancelled: bool) -> JobState:
        """Return the state of a job with these counts."""
        if waiting:
            return cls.RUNNING
        if cancelled:
            return cls.CANCELLED
        return cls.INCOMPLETE if dead else cls.COMPLETED


@dataclass(frozen=True, slots=True)
class Job:
    """A job and the counts of its trajectories. `key` identifies the submission; times are aware UTC."""

    key: str
    job_id: str
    dataset: str
    created_at: datetime
    ended_at: datetime | None
    cancelled: bool
    total: int
    waiting: int
    learned: int
    unchanged: int
    dead: int
    dropped: int
    edits: int
    votes: int
    revision: int
    last_failure: str = ""
    """The message of the last failure of a waiting trajectory; only of a job that was looked up alone."""

    @property
    def state(self) -> JobState:
        """Return the state that the counts make."""
        return JobState.from_counts(waiting=self.waiting, dead=self.dead, cancelled=self.cancelled)


@dataclass(frozen=True, slots=True)
class NewJob:
    """The head of a submission."""

    job_id: str
    dataset: str
    max_iterations: int | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A trajectory that could not be learned, and why."""

    index: int
    trajectory_id: str
    attempts: int
    code: str
    reason: str
    message: str
    died_at: datetime


@dataclass(frozen=True, slots=True)
class QueueCapacity:
    """The limits of all waiting trajectories together: their number, and their bytes."""

    trajectories: int
    bytes: int


@dataclass(frozen=True, slots=True)
class JobTotals:
    """The number of jobs and of their trajectories by state, over all stored jobs."""

    jobs: Mapping[str, int]
    trajectories: Mapping[str, int]
