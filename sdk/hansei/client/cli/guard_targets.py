"""`hansei guards add`, `from-policy` and `from-failures`: lessons with targets, from a person and from a model.

They are added to the commands of `guards`, so the whole group is `app` of this module.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command, print_result
from hansei.client.cli.guards import Dataset, app
from hansei.client.cli.mined_guards import SECTION, build_delta
from hansei.client.cli.options import Address, AsJson, Exit, connect, fail
from hansei.client.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hansei.client.client import Client
    from hansei.evidence.v1.archive_service_pb2 import GetTrajectoryResponse

__all__ = ["app"]

File = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="A file of trajectories with outcomes.", exists=True, dir_okay=False),
]
Archive = Annotated[
    str,
    typer.Option(metavar="DATASET", help="Read the archived trajectories of this dataset instead.", show_default=False),
]
Out = Annotated[Path | None, typer.Option(help="A file for the targets and their backtests, as JSON.", dir_okay=False)]
AddTo = Annotated[
    str, typer.Option("--add", metavar="DATASET", help="Add the lessons to this dataset, with guards in SHADOW.")
]


@command(app, "playbooks.render_edit_result", name="add")
def add(
    client: Client,
    dataset: Dataset,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The lesson that an agent reads.")],
    target: Annotated[str, typer.Option(help="The condition of a call that repeats the mistake, in CEL.")],
    section: Annotated[str, typer.Option(help="The section of the bullet.")] = SECTION,
    reason: Annotated[str, typer.Option(help="The reason, for the history.")] = "",
) -> object:
    """Add a lesson with a target. Its guard only counts calls (SHADOW) until a backtest or a pin allows more."""
    from hansei.client.edits import accept

    deltas = [build_delta(text, target, section)]
    return accept(client.playbooks.apply_deltas(dataset=dataset, deltas=deltas, reason=reason), dataset), dataset


@app.command(name="from-policy")
def from_policy(
    file: File = None,
    archive: Archive = "",
    out: Out = None,
    add_to: AddTo = "",
    addr: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write targets with a model, from the policy that recorded trajectories state.

    The trajectories are those of FILE, or with --archive the archived trajectories of a dataset, without those whose
    outcome is self-reported.

    The model reads the instructions in the trajectories, and the tool results that are the same in several tasks.
    Each target is tested on the trajectories. The model is that of LLM_PROVIDER and LLM_MODEL.
    """
    from hansei.client.server import load_server

    source, trajectories = _find_source(file, archive, addr)
    result = load_server().generate_policy_targets(trajectories)
    _store_targets(result, f"policy in {source}", out, add_to, addr, as_json)


@app.command(name="from-failures")
def from_failures(
    file: File = None,
    archive: Archive = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="The maximum number of failed trajectories to read.")
    ] = 100,
    out: Out = None,
    add_to: AddTo = "",
    addr: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write targets with a model, from the trajectories that failed.

    The trajectories are those of FILE, or with --archive the archived trajectories of a dataset whose outcome is not
    self-reported.

    The model gets one prompt for each failed trajectory: its steps, and the names of the agent's tools and of their
    arguments. It gets no ground truth and no other trajectory. Each target matches a call of its trajectory, and is
    tested on all trajectories. The model is that of LLM_PROVIDER and LLM_MODEL.
    """
    from hansei.client.server import load_server

    source, trajectories = _find_source(file, archive, addr)
    result = load_server().generate_failure_targets(trajectories, limit)
    _store_targets(result, f"failed trajectories in {source}", out, add_to, addr, as_json)


def _find_source(
    file: Path | None, archive: str, addr: str | None
) -> tuple[str, Path | Sequence[GetTrajectoryResponse]]:
    """Return the name of the file or of the archive for people, and the file or the trajectories of the archive."""
    from hansei.client.archive import read_archive

    if (file is None) == (not archive):
        fail("name a FILE or --archive DATASET", Exit.USAGE)
    if file is not None:
        return file.name, file
    with connect(addr, False, reads=True) as client:
        archived = list(read_archive(client, archive))
    return f"the archive of {archive}", archived


def _store_targets(
    result: dict[str, Any], reason: str, out: Path | None, add_to: str, addr: str | None, as_json: bool
) -> None:
    """Write the targets of a model to a file, print them, and add them to a dataset."""
    from hansei.client.edits import accept
    from hansei.playbook.v1.playbook_pb2 import Source

    if out is not None:
        out.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        say(f"wrote {out}")
    print_result(result, as_json, "guards.render_written_targets")
    if add_to and result["targets"]:
        deltas = [
            build_delta(
                item["lesson"],
                item["target"],
                sources=[Source(trajectory_id=item["trajectory_id"])] if item.get("trajectory_id") else (),
            )
            for item in result["targets"]
        ]
        with connect(addr, False) as client:
            response = client.playbooks.apply_deltas(dataset=add_to, deltas=deltas, reason=reason)
            say(f"added {len(deltas)} lessons to {add_to} at revision {accept(response, add_to).revision}")
