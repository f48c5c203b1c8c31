"""`hansei guards …`: list the guards of a dataset, test targets on recorded runs, and set targets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.command import command, print_result
from hansei.client.cli.options import AsJson, Exit, fail
from hansei.client.pages import iterate_items

if TYPE_CHECKING:
    from hansei.client.client import Client

app = typer.Typer(
    help="Check the tool calls of agents by the targets of bullets.", no_args_is_help=True, rich_markup_mode=None
)

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset.")]


class Mode(StrEnum):
    """The modes of a guard."""

    SHADOW = "shadow"
    ADVISE = "advise"
    ASK = "ask"
    DENY = "deny"


@command(app, "guards.render_table", name="list", reads=True, list_name="guards", empty="There are no guards.")
def list_guards(client: Client, dataset: Dataset) -> object:
    """List the bullets with targets, those that fired most often first."""
    return list(iterate_items(client.guards.list_all, "guards", dataset=dataset, page_size=1000))


@app.command()
def backtest(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The condition, in CEL.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of trajectories with outcomes.", exists=True, dir_okay=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Test a target on recorded runs: show the failing runs in which it fires, and its false alarms.

    FILE has runs in any format of trajectories. No server is needed.
    """
    from hansei.client.server import load_server

    print_result(load_server().backtest_target(target, file), as_json, "guards.render_backtest")


@command(app, "guards.render_stored_backtest", name="allow")
def allow(
    client: Client,
    dataset: Dataset,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The condition, in CEL.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Runs with outcomes.", exists=True, dir_okay=False)],
) -> object:
    """Store the backtest of a target, so that its guard may leave SHADOW as far as the backtest allows."""
    from hansei.client.server import load_server

    return client.guards.store_backtest(
        dataset=dataset, expression=target, trajectories=load_server().load_guard_runs(file)
    )


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
        typer.Option(help="The mode of the guard, which is pinned: evidence does not change it.", show_default=False),
    ] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--no-pin", help="Keep the mode even if the evidence contradicts it.")
    ] = None,
    reason: Annotated[str, typer.Option(help="The reason, for the history.")] = "",
) -> object:
    """Set the target of a bullet, or the mode of its guard. It is a revision, as any edit."""
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
        fail(f"bullet {bullet_id} has no target: set one with --target", Exit.USAGE)
    changed = Target(
        expression=present.expression if target is None else target,
        mode=requested if mode is None else TargetMode.Value(f"TARGET_MODE_{mode.name}"),
        pinned=pin if pin is not None else present.pinned or mode is not None,
    )
    delta = Delta(type=DELTA_TYPE_UPDATE, bullet_id=bullet_id, target=changed)
    return accept(client.playbooks.apply_deltas(dataset=dataset, deltas=[delta], reason=reason), dataset), dataset
