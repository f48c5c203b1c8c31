"""Errors of bulk learning."""

from __future__ import annotations

from chassis.errors import FailedPrecondition, NotFound, ResourceExhausted, Unavailable, shorten


class JobNotFound(NotFound):
    """There is no such job, or its retention is over."""

    reason = "JOB_NOT_FOUND"

    def __init__(self, job_id: str) -> None:
        super().__init__(f'job "{shorten(job_id)}" does not exist, or its retention is over')


class QueueFull(ResourceExhausted):
    """The capacity of the queue is used up; nothing of the submission was stored."""

    reason = "BULK_QUEUE_FULL"


class QueueUnavailable(Unavailable):
    """The queue of batches is closed, or its database does not answer."""

    reason = "BULK_QUEUE_UNAVAILABLE"


class QueueOwnedByOtherInstance(FailedPrecondition):
    """Another gateway in this process runs the queue; a process has one."""

    reason = "QUEUE_OWNED_BY_OTHER_INSTANCE"
