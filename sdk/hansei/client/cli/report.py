"""`hansei report …`: generate reports about a dashboard with a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.sources import read_dashboard
from hansei.client.cli.validate import exit_if_invalid

if TYPE_CHECKING:
    from hansei.client.client import Client

app = CommandGroup("Generate reports about a dashboard.")

Dashboard = Annotated[
    str, typer.Argument(metavar="DASHBOARD", help='A file with {"trays": {"<name>": [{"id": …}]}}; - for stdin.')
]
Focus = Annotated[str | None, typer.Option(metavar="ID", help="The node that the report is about.")]
Intent = Annotated[str | None, typer.Option(help="Your intent, in free words.")]
Constraint = Annotated[list[str] | None, typer.Option(help="A constraint to respect, in free words; repeatable.")]
Partial = Annotated[
    bool, typer.Option("--partial", help="If a report has errors, let the model correct only these parts.")
]


@command(app, "findings.render_report_run", check=exit_if_invalid)
def organizer(
    client: Client,
    dashboard: Dashboard,
    focus: Focus = None,
    intent: Intent = None,
    constraint: Constraint = None,
    partial: Partial = False,
) -> object:
    """Propose how to decompose, group and relate the nodes of a dashboard.

    Exits with 1 if the model produced no valid report, and shows why.
    """
    return client.validator.run_organizer(**_build_request(dashboard, focus, intent, constraint, partial)).run


@command(app, "findings.render_report_run", check=exit_if_invalid)
def advisor(
    client: Client,
    dashboard: Dashboard,
    focus: Focus = None,
    intent: Intent = None,
    constraint: Constraint = None,
    partial: Partial = False,
) -> object:
    """Compare the options for one node of a dashboard: that of --focus, else the first.

    Exits with 1 if the model produced no valid report, and shows why.
    """
    return client.validator.run_advisor(**_build_request(dashboard, focus, intent, constraint, partial)).run


def _build_request(
    dashboard: str, focus: str | None, intent: str | None, constraint: list[str] | None, partial: bool
) -> dict[str, Any]:
    """Return the fields of the request that both kinds of report share."""
    from hansei.validator.v1.report_pb2 import REPAIR_FULL, REPAIR_PARTIAL, DashboardBrief, RunOptions

    brief = DashboardBrief(
        dashboard_json=read_dashboard(dashboard), focus_node_id=focus, user_intent=intent, constraints=constraint
    )
    return {"brief": brief, "options": RunOptions(repair=REPAIR_PARTIAL if partial else REPAIR_FULL)}
