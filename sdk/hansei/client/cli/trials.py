"""`hansei trials …`, `effects` and `decisions`: measure the effect of each bullet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Author, require_dataset
from hansei.client.pages import iterate_items

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.evidence.v1.evidence_service_pb2 import GetTrialsResponse

app = CommandGroup("Withhold bullets from some sessions at random, to measure their effects.")
commands = CommandGroup()

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset.")]


def _build_policy_option(help: str) -> Any:
    return typer.Option(help=help, show_default=False)


@command(app, "trials.render_started")
def start(
    client: Client,
    dataset: Dataset,
    bullet_holdout: Annotated[
        float | None,
        _build_policy_option("The share of sessions from which a bullet on trial is withheld. [default: 0.25]"),
    ] = None,
    playbook_holdout: Annotated[
        float | None,
        _build_policy_option(
            "The share of sessions that get no playbook; 0: do not measure the playbook as a whole. [default: 0.25]"
        ),
    ] = None,
    audit_holdout: Annotated[
        float | None,
        _build_policy_option("The share of sessions from which a proven bullet is withheld. [default: 0.1]"),
    ] = None,
    false_discovery_rate: Annotated[
        float | None, _build_policy_option("The maximum share of wrong decisions. [default: 0.05]")
    ] = None,
    margin: Annotated[
        float | None,
        _build_policy_option("A difference of success rates up to this counts as no effect. [default: 0.1]"),
    ] = None,
) -> object:
    """Start trials, or change their policy. A changed holdout discards all measurements so far."""
    from hansei.evidence.v1.evidence_pb2 import TrialPolicy

    require_dataset(client, dataset)
    policy = TrialPolicy(
        bullet_holdout=bullet_holdout,
        playbook_holdout=playbook_holdout,
        audit_holdout=audit_holdout,
        false_discovery_rate=false_discovery_rate,
        margin=margin,
    )
    return client.evidence.start_trials(dataset=dataset, policy=policy)


@command(app, "trials.render_stopped")
def stop(client: Client, dataset: Dataset) -> object:
    """Stop trials: no bullet is withheld from a session any longer. Measurements and decisions are kept."""
    return client.evidence.stop_trials(dataset=dataset)


@command(app, "trials.render_trials", reads=True)
def status(client: Client, dataset: Dataset) -> object:
    """Show the policy, the sessions and the assignment checks of the trials."""
    return _read_trials(client, dataset), dataset


@command(app, "trials.render_undone")
def undo(
    client: Client,
    dataset: Dataset,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, help="The decision; `hansei decisions` lists them.")
    ],
    author: Author = "",
) -> object:
    """Undo the newest decision about a bullet: it goes back on trial, and is added again if it was removed."""
    return client.evidence.undo_decision(dataset=dataset, number=number, author=author)


@command(commands, "trials.render_effects", reads=True)
def effects(
    client: Client,
    dataset: Dataset,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a picture (.png, .svg, .pdf).", show_default=False)
    ] = None,
) -> object:
    """Show the effects of the playbook and of its bullets: outcomes of sessions with and without them."""
    trials = _read_trials(client, dataset)
    lift = client.evidence.get_lift(dataset=dataset)
    effects = list(iterate_items(client.evidence.get_effects, "effects", dataset=dataset, page_size=1000))
    if plot is not None:
        from hansei.client.cli.effects_plot import draw_effects

        draw_effects(lift, effects, plot)
    return {"trials": trials, "lift": lift, "effects": effects}, dataset


def _read_trials(client: Client, dataset: str) -> GetTrialsResponse:
    """Return the trials of a dataset. Raises NotFound if it does not exist and never had trials."""
    trials = client.evidence.get_trials(dataset=dataset)
    if not trials.HasField("policy"):
        require_dataset(client, dataset)
    return trials


@command(commands, "trials.render_decision", reads=True, empty="There are no decisions.")
def decisions(
    client: Client,
    dataset: Dataset,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Print the decisions in their order, then each new one; end with Ctrl-C."),
    ] = False,
) -> object:
    """List the decisions about bullets, newest first, with the measurements that led to them."""
    if follow:
        _read_trials(client, dataset)
        return (event.decision for event in client.evidence.watch_decisions(dataset=dataset))
    made = list(iterate_items(client.evidence.list_decisions, "decisions", dataset=dataset, page_size=1000))
    if not made:
        require_dataset(client, dataset)
    return made
