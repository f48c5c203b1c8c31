"""Conversion between jobs and their messages."""

from __future__ import annotations

from gateway.bulk.domain.job import DeadLetter, Job
from hansei.gateway.v1 import bulk_pb2 as bulk


def to_job_message(job: Job) -> bulk.Job:
    """Return the message of a job."""
    message = bulk.Job(
        job_id=job.job_id,
        dataset=job.dataset,
        state=bulk.JobState.Value(f"JOB_STATE_{job.state.upper()}"),
        total=job.total,
        waiting=job.waiting,
        learned=job.learned,
        unchanged=job.unchanged,
        dead=job.dead,
        dropped=job.dropped,
        edits=job.edits,
        votes=job.votes,
        revision=job.revision,
        last_failure=job.last_failure,
    )
    message.created_at.FromDatetime(job.created_at)
    if job.ended_at is not None:
        message.ended_at.FromDatetime(job.ended_at)
    return message


def to_dead_letter_message(letter: DeadLetter) -> bulk.DeadLetter:
    """Return the message of a dead letter."""
    message = bulk.DeadLetter(
        index=letter.index,
        trajectory_id=letter.trajectory_id,
        attempts=letter.attempts,
        code=letter.code,
        reason=letter.reason,
        message=letter.message,
    )
    message.died_at.FromDatetime(letter.died_at)
    return message
