"""`hansei jobs`, and `hansei learn --bulk`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.command import command, print_result
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import DATASET_VARIABLE, Exit, fail, require_dataset
from hansei.client.pages import iterate_items

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.client.trajectories import TrajectoryRecord
    from hansei.gateway.v1.bulk_pb2 import Job

app = CommandGroup("Jobs of many trajectories, which the server learns in the background.")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job, as `hansei jobs list` shows it.")]


@command(app, "jobs.render_table", name="list", local=False, list_name="jobs", empty="There are no jobs.")
def list_jobs(
    client: Client,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", envvar=DATASET_VARIABLE, help="List only jobs of this dataset.")
    ] = None,
) -> object:
    """List jobs, newest first."""
    jobs = list(iterate_items(client.jobs.list, "jobs", dataset=dataset))
    if dataset and not jobs:
        require_dataset(client, dataset)
    return jobs


@command(app, "jobs.render_line", local=False)
def show(client: Client, job: JobId) -> object:
    """Show the progress of a job."""
    return client.jobs.get(job_id=job).job


@command(app, "jobs.render_line", local=False, check=lambda job: _fail_if_incomplete([job]))
def watch(client: Client, job: JobId) -> object:
    """Watch a job until it has ended."""
    return _watch_with_progress(client, job)


@command(app, "jobs.render_line", local=False)
def cancel(client: Client, job: JobId) -> object:
    """Cancel the waiting trajectories of a job; the lessons of learned ones stay."""
    return client.jobs.cancel(job_id=job).job


@command(
    app,
    "jobs.render_dead_letters",
    name="dead-letters",
    local=False,
    list_name="dead_letters",
    empty="There are no dead letters.",
)
def list_dead_letters(client: Client, job: JobId) -> object:
    """List the trajectories of a job that could not be learned, with the reasons."""
    return list(iterate_items(client.jobs.list_dead_letters, "dead_letters", job_id=job))


@command(app, "jobs.render_line", local=False)
def retry(client: Client, job: JobId) -> object:
    """Queue the dead letters of a job again."""
    return client.jobs.retry_dead_letters(job_id=job).job


def learn_in_bulk(client: Client, records: Sequence[TrajectoryRecord], wait: bool, as_json: bool) -> None:
    """Submit trajectories as jobs and, if `wait`, watch the jobs until they end."""
    from hansei.client.jobs import submit_jobs

    submitted = submit_jobs(client, records)
    jobs = [_watch_with_progress(client, job.job_id) for job in submitted] if wait else submitted
    for job, before in zip(jobs, submitted, strict=True):
        # A new job has not ended when it is submitted; this one was learned by an earlier command.
        is_repeated = before.HasField("ended_at") and before.learned == before.total
        print_result((job, is_repeated), as_json, "jobs.render_line", line=True)
    if wait:
        _fail_if_incomplete(jobs)


def _watch_with_progress(client: Client, job_id: str) -> Job:
    """Show a progress bar until the job ends, and return the ended job."""
    from hansei.client.cli.output import create_console
    from hansei.client.cli.show.progress import progress_bar

    jobs = (event.job for event in client.jobs.watch(job_id=job_id))
    job = next(jobs)
    with progress_bar("learning", job.total, create_console(stderr=True)) as set_completed:
        set_completed(job.total - job.waiting)
        for job in jobs:
            set_completed(job.total - job.waiting)
    return job


def _fail_if_incomplete(jobs: Sequence[Job]) -> None:
    """End the command with an error if trajectories of the jobs were not learned."""
    missing = sum(job.dead + job.dropped for job in jobs)
    if missing:
        job_id = next(job.job_id for job in jobs if job.dead + job.dropped)
        total = sum(job.total for job in jobs)
        message = (
            f"{missing} of {total} trajectories were not learned; `hansei jobs dead-letters {job_id}` lists the reasons"
        )
        fail(message, Exit.FAILED if missing == total else Exit.PARTLY)
