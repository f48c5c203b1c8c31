"""Jobs of bulk learning, and their dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hansei.client.cli.show.words import (
    BAD,
    CHANGED,
    FAINT,
    GOOD,
    ID,
    count_noun,
    format_enum_name,
    format_time,
    keep_ids_whole,
    put_on_one_line,
)  # fmt: skip
from hansei.gateway.v1 import bulk_pb2 as bulk

STATE_STYLE = {
    bulk.JOB_STATE_RUNNING: CHANGED,
    bulk.JOB_STATE_COMPLETED: GOOD,
    bulk.JOB_STATE_INCOMPLETE: BAD,
    bulk.JOB_STATE_CANCELLED: BAD,
}


def render_line(job: bulk.Job, is_repeated: bool = False) -> Text:
    """Show a job on one line: its progress, and its effect on the playbook. `is_repeated`: an earlier job did it."""
    learned = "already learned" if is_repeated else "learned"
    progress = f"{job.learned} of {job.total} {learned}"
    if job.unchanged:
        progress += f", {job.unchanged} of them changed nothing"
    text = Text.assemble((job.job_id, ID), "  ", _render_state(job.state))
    text.append(f"  {', '.join(_list_counts(job, progress))}")
    text.append(f"  {count_noun(job.edits, 'edit')}, {count_noun(job.votes, 'vote')}", FAINT)
    if job.revision:
        text.append(f", {job.dataset} at revision {job.revision}", FAINT)
    if job.last_failure:
        text.append(f"  tried again: {put_on_one_line(job.last_failure)}", BAD)
    return text


def _list_counts(job: bulk.Job, progress: str) -> Iterator[str]:
    """Yield the progress of a job, and the numbers of its trajectories that are not learned."""
    yield progress
    for number, state in ((job.waiting, "waiting"), (job.dead, "dead"), (job.dropped, "dropped")):
        if number:
            yield f"{number} {state}"


def _render_state(state: bulk.JobState.ValueType) -> Text:
    return Text(format_enum_name(bulk.JobState, state), STATE_STYLE.get(state, FAINT))


def render_table(jobs: Iterable[bulk.Job]) -> Table:
    """Show jobs, one a row."""
    rows = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("job", "dataset", "state", "learned", "submitted"):
        rows.add_column(heading, style=ID if heading == "job" else None, overflow="fold")
    for job in jobs:
        counts = ", ".join(_list_counts(job, f"{job.learned} of {job.total}"))
        rows.add_row(job.job_id, job.dataset, _render_state(job.state), counts, format_time(job.created_at))
    return keep_ids_whole(rows)


def render_dead_letters(letters: Iterable[bulk.DeadLetter]) -> RenderableType:
    """Show dead letters, one a line."""
    return Group(*(_render_dead_letter(letter) for letter in letters))


def _render_dead_letter(letter: bulk.DeadLetter) -> Text:
    text = Text.assemble((f"#{letter.index}", ID), f"  {letter.trajectory_id}  ", (letter.reason, BAD))
    return text.append(f"  {put_on_one_line(letter.message)}  after {count_noun(letter.attempts, 'attempt')}")
