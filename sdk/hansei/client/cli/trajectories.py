"""`hansei trajectories …`: list, show, export and delete archived trajectories."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import STDIO, Dataset, Exit, choose_dataset, fail, refuse_empty_path

if TYPE_CHECKING:
    from hansei.client.client import Client

app = CommandGroup("Read and delete the trajectories that were learned or reported.")

_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
_STATUSES = {"success": 1, "failure": 2}

TrajectoryId = Annotated[str, typer.Argument(metavar="ID", help="The id of the trajectory.")]
Status = Annotated[
    str, typer.Option(help="Only trajectories with this outcome: success or failure.", show_default=False)
]
Tool = Annotated[str, typer.Option(help="Only trajectories that call this tool.", show_default=False)]
Error = Annotated[
    str, typer.Option(help="Only trajectories with a tool error that contains this text.", show_default=False)
]
Served = Annotated[str, typer.Option(metavar="BULLET", help="Only trajectories whose agent was served this bullet.")]
Cited = Annotated[str, typer.Option(metavar="BULLET", help="Only trajectories whose answer cites this bullet.")]
Learned = Annotated[str, typer.Option(metavar="BULLET", help="Only trajectories from which this bullet was learned.")]
Agent = Annotated[str, typer.Option(help="Only trajectories with steps of this agent.", show_default=False)]
Since = Annotated[
    datetime | None, typer.Option(formats=_TIMES, help="Only trajectories recorded at this time or later.")
]
Until = Annotated[datetime | None, typer.Option(formats=_TIMES, help="Only trajectories recorded before this time.")]


def _build_filters(
    status: str, tool: str, error: str, served: str, cited: str, learned: str, agent: str
) -> dict[str, Any]:
    if status and status not in _STATUSES:
        fail(f"--status is {status!r}; it must be success or failure", Exit.USAGE)
    filters: dict[str, Any] = {
        "status": _STATUSES.get(status, 0),
        "tool": tool,
        "error": error,
        "served_bullet_id": served,
        "cited_bullet_id": cited,
        "learned_bullet_id": learned,
        "agent": agent,
    }
    return {name: value for name, value in filters.items() if value}


@command(app, "trajectories.render_line", name="list", reads=True, empty="No trajectory matches.")
def list_archived(
    client: Client,
    dataset: Dataset = None,
    status: Status = "",
    tool: Tool = "",
    error: Error = "",
    served: Served = "",
    cited: Cited = "",
    learned: Learned = "",
    agent: Agent = "",
    since: Since = None,
    until: Until = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="List deleted trajectories, of which only the ids are left.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="The maximum number of trajectories.")
    ] = 100,
) -> object:
    """List trajectories, most recently stored first."""
    from itertools import islice

    from hansei.client.archive import list_trajectories

    filters = _build_filters(status, tool, error, served, cited, learned, agent)
    times = {"created_from": since, "created_before": until}
    filters |= {name: time.astimezone() for name, time in times.items() if time is not None}
    listed = list_trajectories(client, choose_dataset(client, dataset), deleted=deleted, **filters)
    return list(islice(listed, limit))


@command(app, "trajectories.render_trajectory", reads=True)
def show(
    client: Client,
    trajectory_id: TrajectoryId,
    dataset: Dataset = None,
    step: Annotated[
        int | None,
        typer.Option(
            "--step", "-s", min=0, help="Show only this step, with its full text. [default: all steps, shortened]"
        ),
    ] = None,
) -> object:
    """Show a trajectory, or one of its steps. The sources of a bullet name the id and the steps."""
    archived = client.archive.get_trajectory(dataset=choose_dataset(client, dataset), trajectory_id=trajectory_id)
    if step is None:
        return archived
    steps = len(archived.trajectory.steps) or len(archived.trajectory.reasoning_steps)
    if step >= steps:
        fail(f"trajectory {trajectory_id} has no step {step}: its steps are 0 to {steps - 1}", Exit.NOT_FOUND)
    return archived, step


@command(app, "trajectories.render_export")
def export(
    client: Client,
    dataset: Dataset = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE|-", help="The file; - for stdout.")] = STDIO,
    status: Status = "",
    tool: Tool = "",
    error: Error = "",
    served: Served = "",
    cited: Cited = "",
    learned: Learned = "",
    agent: Agent = "",
) -> object:
    """Write trajectories as JSON lines, which `hansei learn` reads, in the order in which they were stored."""
    import json
    import shutil
    import tempfile

    from hansei.client.archive import read_archive
    from hansei.client.cli.output import encode_message

    refuse_empty_path(output, "--output")
    filters = _build_filters(status, tool, error, served, cited, learned, agent)
    count = 0
    # The lines are complete before the output is opened, so that an export that fails leaves a former file as it is.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        for archived in read_archive(client, choose_dataset(client, dataset), **filters):
            document = encode_message(archived)
            del document["summary"]
            lines.write(json.dumps(document, ensure_ascii=False) + "\n")
            count += 1
        lines.seek(0)
        with nullcontext(sys.stdout) if output == STDIO else Path(output).open("w", encoding="utf-8") as stream:
            shutil.copyfileobj(lines, stream)
    return [] if output == STDIO else {"trajectories": count, "file": output}


@command(app, "trajectories.render_deletions")
def delete(
    client: Client,
    trajectory_ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="The trajectories.")] = None,
    dataset: Dataset = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all trajectories of the dataset.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for a confirmation of --all.")] = False,
) -> object:
    """Delete trajectories from the archive. Their bullets stay; `hansei playbook revoke` removes those."""
    ids = trajectory_ids or []
    if bool(ids) == everything:
        fail("name trajectories, or use --all", Exit.USAGE)
    name = choose_dataset(client, dataset)
    if everything:
        if not yes and not typer.confirm(f"Delete all archived trajectories of {name}?", err=True):
            fail("nothing was deleted")
        return {"dataset": name, "trajectories": client.archive.delete_archive(dataset=name).trajectories}
    for trajectory_id in ids:
        client.archive.delete_trajectory(dataset=name, trajectory_id=trajectory_id)
    return {"dataset": name, "trajectories": len(ids)}
