"""The stores, the queue and the chain that bulk learning needs. Stores raise the errors of `libs.storage.errors`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from gateway.bulk.domain.attempts import Failure, PendingTrajectory, TrajectoryCommit
from gateway.bulk.domain.batches import Batch
from gateway.bulk.domain.job import DeadLetter, Job, JobTotals, NewJob
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from libs.storage.idempotency import IdempotencyKey
from libs.storage.leases import LeaseState


class LearnChain(Protocol):
    """Learns one trajectory."""

    async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
        """Return the outcome; a repeated `request_id` returns the first one."""


class SubmissionStore(Protocol):
    """Stores submissions while they arrive."""

    async def begin(self, key: str, head: NewJob) -> None:
        """Begin a submission."""

    async def stage(self, key: str, first: int, trajectories: Sequence[tuple[str, bytes]]) -> None:
        """Store ids and payloads of trajectories from position `first` on. Raises QueueFull."""

    async def accept(self, key: str, request: IdempotencyKey) -> bool:
        """Make a complete submission a job; False if the request was accepted before. Raises RequestIdReused."""

    async def check_accepted(self, request: IdempotencyKey) -> None:
        """Raise RequestIdReused if the accepted request of this id had another content."""

    async def exists(self, job_id: str) -> bool:
        """Return whether a job is stored."""

    async def discard(self, key: str) -> None:
        """Delete a submission or a job with its trajectories."""


class JobStore(SubmissionStore, Protocol):
    """Stores jobs."""

    async def find(self, job_id: str) -> Job:
        """Return a job. Raises JobNotFound."""

    async def cancel(self, job_id: str, request: IdempotencyKey) -> Job:
        """Drop the waiting trajectories of a job. Raises JobNotFound, RequestIdReused."""

    async def retry(self, job_id: str, request: IdempotencyKey) -> Job:
        """Make the dead letters of a job wait again. Raises JobNotFound, RequestIdReused."""

    async def list_jobs(self, dataset: str | None, before: tuple[datetime, str] | None, limit: int) -> list[Job]:
        """Return at most `limit` jobs, newest first, those before a time and key."""

    async def list_dead_letters(self, job_id: str, after: int, limit: int) -> list[DeadLetter]:
        """Return at most `limit` dead letters of a job, those at positions above `after`. Raises JobNotFound."""

    async def list_expired_keys(self, retention: timedelta, abandoned: timedelta) -> list[str]:
        """Return keys of jobs that ended before `retention`, and of submissions that did not arrive whole."""

    async def count_totals(self) -> JobTotals:
        """Return the totals of all stored jobs."""


class ProgressStore(Protocol):
    """Stores the outcome of each trajectory."""

    async def start_batch(self, batch: Batch) -> list[int]:
        """Count a start of a batch, and return the positions that wait."""

    async def start_trajectory(self, key: str, position: int) -> PendingTrajectory | None:
        """Mark a waiting trajectory as started, and return it; None if it does not wait any more."""

    async def save_learned(
        self, key: str, position: int, learned: TrajectoryCommit, following: int | None = None
    ) -> PendingTrajectory | None:
        """Count a trajectory as learned, once; mark the `following` one as started and return it, if it waits."""

    async def save_failure(self, key: str, position: int, failure: Failure, attempts: int = 1) -> None:
        """Store why a trajectory failed, and count `attempts`, 0 or 1; it still waits."""

    async def save_dead_letter(self, key: str, position: int, failure: Failure) -> None:
        """Make a waiting trajectory a dead letter."""


class BatchStore(ProgressStore, Protocol):
    """Stores the batches of jobs."""

    async def list_batches(self, key: str) -> list[Batch]:
        """Return the waiting trajectories of a job as batches of its present generation."""

    async def list_overdue_jobs(self) -> list[tuple[str, int]]:
        """Return key and generation of jobs with waiting trajectories whose batches are due to be checked."""

    async def has_waiting(self) -> bool:
        """Return whether any job has waiting trajectories."""

    async def start_generation(self, key: str, generation: int) -> bool:
        """Start the next generation of batches; False if another replica did, or nothing waits any more."""


class ReplicaStore(Protocol):
    """Stores the lease of each replica."""

    async def renew(self) -> None:
        """Renew the lease of this replica."""

    async def release(self) -> None:
        """Give the lease back: other replicas may take the work over at once."""

    async def list_states(self) -> list[LeaseState]:
        """Return the leases of all replicas."""

    async def delete(self, state: LeaseState) -> None:
        """Delete the lease of a replica whose work was taken over, unless it was renewed."""


class BatchQueue(Protocol):
    """Runs batches in this process and in all others over the same database."""

    @property
    def is_open(self) -> bool:
        """Return whether batches run here."""

    async def open(self) -> None:
        """Start to run batches. Raises QueueUnavailable, QueueOwnedByOtherInstance."""

    async def close(self) -> None:
        """Stop to run batches; unfinished ones stay queued."""

    async def put(self, batches: Sequence[Batch]) -> None:
        """Queue batches; one whose id was queued before is not queued again."""

    async def contains(self, prefix: str) -> bool:
        """Return whether a batch whose id has this prefix is queued or runs."""

    async def take_over(self, executor: str) -> int:
        """Queue the batches of a dead replica again, and return their number."""

    async def cancel(self, prefix: str) -> None:
        """Take waiting batches whose id has this prefix out of the queue; running ones end by themselves."""

    async def delete(self, prefix: str) -> None:
        """Delete the records of batches whose id has this prefix."""
