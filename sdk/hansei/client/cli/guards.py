"""`hansei guards …`: list the guards of a dataset, test targets on recorded trajectories, and set targets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.command import command, print_result
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import (
    Address,
    AsJson,
    DataDirectory,
    Exit,
    Local,
    connect,
    fail,
    require_bullet,
    require_dataset,
)
from hansei.client.pages import iterate_items

if TYPE_CHECKING:
    from hansei.client.client import Client

app = CommandGroup("Check the tool calls of agents by the targets of bullets.")

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset.")]

Archive = Annotated[
    str,
    typer.Option(
        metavar="DATASET", help="Test on the archived trajectories of this dataset instead.", show_default=False
    ),
]


class Mode(StrEnum):
    """The modes of a guard."""

    SHADOW = "shadow"
    ADVISE = "advise"
    ASK = "ask"
    DENY = "deny"


@command(app, "guards.render_table", name="list", reads=True, list_name="guards", empty="There are no guards.")
def list_guards(client: Client, dataset: Dataset) -> object:
    """List the guards of a dataset, those that fired most often first."""
    guards = list(iterate_items(client.guards.list_all, "guards", dataset=dataset, page_size=1000))
    if not guards:
        require_dataset(client, dataset)
    return guards


@app.command()
def backtest(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The condition, in CEL.")],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A file of trajectories with outcomes.", exists=True, dir_okay=False),
    ] = None,
    archive: Archive = "",
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Test a target on recorded trajectories: show the failing trajectories in which it fires, and its false alarms.

    FILE has trajectories in any format, and needs no server. --archive uses the archived trajectories of a dataset,
    without those whose outcome is self-reported.
    """
    if (file is None) == (not archive):
        fail("name a FILE or --archive DATASET", Exit.USAGE)
    if file is not None:
        from hansei.client.server import load_server

        print_result(load_server().backtest_target(target, file), as_json, "guards.render_backtest")
        return
    from hansei.client.cli.mined_guards import backtest_archive

    with connect(addr, local, reads=True) as client:
        result = backtest_archive(client, target, archive)
    print_result((result, archive), as_json, "guards.render_backtest")


@app.command(name="mine")
def mine_guards_of_dataset(
    dataset: Dataset,
    add: Annotated[
        bool, typer.Option("--add", help="Add the guards to the playbook in SHADOW, and store their backtests.")
    ] = False,
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Mine guards from the archived trajectories of DATASET, without a model, each with its backtest.

    A condition over tool calls becomes a guard if it holds mostly in failed trajectories; the false discovery rate
    over all tested conditions is controlled. Trajectories with a self-reported outcome are left out.
    """
    from hansei.client.cli.mined_guards import add_guards, mine_archive

    with connect(addr, local, reads=not add) as client:
        report = mine_archive(client, dataset)
        if add:
            add_guards(client, dataset, report)
    print_result((report, dataset), as_json, "guards.render_mined")


@command(app, "guards.render_stored_backtest", name="allow")
def allow(
    client: Client,
    dataset: Dataset,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The condition, in CEL.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Trajectories with outcomes. [default: the archive of DATASET]",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
) -> object:
    """Test a target and store the backtest. With few false alarms its guard may then advise or ask."""
    from hansei.client.server import load_server

    trajectories = [] if file is None else load_server().encode_guard_trajectories(file)
    if file is not None and not trajectories:
        fail(f"{file} has no trajectories", Exit.USAGE)
    return client.guards.store_backtest(dataset=dataset, expression=target, trajectories=trajectories)


@command(app, "playbooks.render_edit_result", name="set")
def set_target(
    client: Client,
    dataset: Dataset,
    bullet_id: Annotated[str, typer.Argument(metavar="BULLET", help="The id of the bullet.")],
    target: Annotated[
        str | None, typer.Option(help="The condition, in CEL; empty removes the target.", show_default=False)
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option(help="Set the mode and pin it: evidence does not change a pinned mode.", show_default=False),
    ] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--no-pin", help="Pin the present mode, or let evidence change it again.")
    ] = None,
    reason: Annotated[str, typer.Option(help="The reason, for the history.")] = "",
) -> object:
    """Set the target of a bullet, or the mode of its guard. The change is a revision, like any edit."""
    from hansei.client.edits import accept
    from hansei.evidence.v1.guard_service_pb2 import Guard
    from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_UPDATE, Delta, Target, TargetMode

    if target is None and mode is None and pin is None:
        fail("set --target, --mode or --pin", Exit.USAGE)
    guards = iterate_items(client.guards.list_all, "guards", dataset=dataset, page_size=1000)
    if mode not in (None, Mode.SHADOW) and pin is not False and not reason.strip():
        fail("state a --reason: a pinned mode holds without a backtest", Exit.USAGE)
    found = next((guard for guard in guards if guard.bullet_id == bullet_id), Guard())
    present, requested = found.target, found.requested_mode
    if target is None and not present.expression:
        require_bullet(client, dataset, bullet_id)
        fail(f"bullet {bullet_id} has no target: set one with --target", Exit.USAGE)
    changed = Target(
        expression=present.expression if target is None else target,
        mode=requested if mode is None else TargetMode.Value(f"TARGET_MODE_{mode.name}"),
        pinned=pin if pin is not None else present.pinned or mode is not None,
    )
    delta = Delta(type=DELTA_TYPE_UPDATE, bullet_id=bullet_id, target=changed)
    return accept(client.playbooks.apply_deltas(dataset=dataset, deltas=[delta], reason=reason), dataset), dataset


@command(app, "guards.render_decisions", reads=True, list_name="decisions", empty="Evidence has changed no mode yet.")
def decisions(client: Client, dataset: Dataset) -> object:
    """List the changes of modes by evidence, with their reasons, newest first."""
    changes = list(iterate_items(client.guards.list_decisions, "decisions", dataset=dataset, page_size=1000))
    if not changes:
        require_dataset(client, dataset)
    return changes


@command(app, "guards.render_undone")
def undo(
    client: Client,
    dataset: Dataset,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, help="The decision; `hansei guards decisions` lists them.")
    ],
    author: Annotated[str, typer.Option(help="The author of the change, for the history.")] = "",
) -> object:
    """Undo the newest decision about a guard. Evidence does not raise a mode again whose raise was undone."""
    return client.guards.undo_decision(dataset=dataset, number=number, author=author)
