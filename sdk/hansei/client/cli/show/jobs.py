"""Jobs of bulk learning, and their dead letters."""

from __future__ import annotations

from collections.abc import Iterable

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
    text = Text.assemble((job.job_id, ID), "  ", _render_state(job.state), f"  {job.learned} of {job.total} {learned}")
    if job.unchanged:
        text.append(f", {job.unchanged} of them changed nothing")
    for number, state in ((job.waiting, "waiting"), (job.dead, "dead"), (job.dropped, "dropped")):
        if number:
            text.append(f", {number} {state}")
    text.append(f"  {count_noun(job.edits, 'edit')}, {count_noun(job.votes, 'vote')}", FAINT)
    if job.revision:
        text.append(f", {job.dataset} at revision {job.revision}", FAINT)
    if job.last_failure:
        text.append(f"  tried again: {put_on_one_line(job.last_failure)}", BAD)
    return text


def _render_state(state: bulk.JobState.ValueType) -> Text:
    return Text(format_enum_name(bulk.JobState, state), STATE_STYLE.get(state, FAINT))


def render_table(jobs: Iterable[bulk.Job]) -> Table:
    """Show jobs, one a row."""
    rows = Table(box=None, pad_edge=False)
    for heading in ("job", "dataset", "state", "learned", "waiting", "dead", "submitted"):
        rows.add_column(heading, style=ID if heading == "job" else None)
    for job in jobs:
        numbers = (f"{job.learned} of {job.total}", str(job.waiting), str(job.dead))
        rows.add_row(job.job_id, job.dataset, _render_state(job.state), *numbers, format_time(job.created_at))
    return rows


def render_dead_letters(letters: Iterable[bulk.DeadLetter]) -> RenderableType:
    """Show dead letters, one a line."""
    return Group(*(_render_dead_letter(letter) for letter in letters))


def _render_dead_letter(letter: bulk.DeadLetter) -> Text:
    text = Text.assemble((f"#{letter.index}", ID), f"  {letter.trajectory_id}  ", (letter.reason, BAD))
    return text.append(f"  {put_on_one_line(letter.message)}  after {count_noun(letter.attempts, 'attempt')}")
