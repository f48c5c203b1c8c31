"""`hansei plan …`: create plans, execute them, follow executions, answer their questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.options import STDIO, Exit, fail
from hansei.client.cli.sources import read_source_text

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.planner.v1.planner_pb2 import Plan

app = typer.Typer(help="Create plans, execute them and follow them.", no_args_is_help=True, rich_markup_mode=None)

Execution = Annotated[str, typer.Argument(metavar="EXECUTION", help="The id of the execution.")]
Prefix = Annotated[
    str,
    typer.Option(
        help="Use only datasets and collections whose names begin with this; ends in a hyphen.", show_default=False
    ),
]


def exit_with_status(event: Any) -> None:
    """End the command with the exit code for the last event of an execution."""
    from hansei.client.cli.show import plans

    code = plans.exit_code(event)
    if code is not Exit.DONE:
        raise typer.Exit(code)


@command(app, "plans.plan")
def create(
    client: Client,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The task to plan.")],
    hints: Annotated[str, typer.Option(help="Hints for the model.", show_default=False)] = "",
    prefix: Prefix = "",
) -> object:
    """Create a plan for a query; --json prints it in the form that `plan run` reads."""
    response = client.planner.create_plan(query=query, hints=hints, prefix=prefix)
    return response.plan, response.template_reason if response.from_template else ""


@command(app, "plans.event", check=exit_with_status)
def run(
    client: Client,
    query: Annotated[str, typer.Argument(metavar="QUERY|FILE|-", help="A query, or a plan as JSON.")],
    prefix: Prefix = "",
) -> object:
    """Execute a plan and show its events until it ends or asks a question.

    The execution continues if this command is interrupted. Exits with 4 if it waits for an answer, with 1 if it failed.
    """
    events = client.planner.execute_plan(plan=_plan(client, query, prefix), prefix=prefix)
    return (response.event for response in events)


@command(app, "plans.event", check=exit_with_status)
def watch(
    client: Client,
    execution: Execution,
    after: Annotated[int, typer.Option(min=0, help="Show only events after this sequence number.")] = 0,
) -> object:
    """Show the events of an execution until it ends or asks a question."""
    events = client.planner.watch_execution(execution_id=execution, after_sequence=after, until_paused=True)
    return (response.event for response in events)


@command(app, "plans.event", check=exit_with_status)
def answer(
    client: Client,
    execution: Execution,
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="One of the options of the question, or free text.")],
) -> object:
    """Answer the question of a paused execution and follow the execution."""
    from hansei.planner.v1.planner_pb2 import InterventionResponse

    status = client.planner.get_execution(execution_id=execution).execution
    if not status.HasField("intervention_request"):
        fail(f"execution {execution} does not wait for an answer")
    question = status.intervention_request
    is_option = text in question.options
    events = client.planner.resume_plan(
        execution_id=execution,
        response=InterventionResponse(
            selected_option=text if is_option else None, user_input=None if is_option else text
        ),
        answer_token=question.answer_token,
        plan_version=question.plan_version,
        step_id=question.step_id if question.HasField("step_id") else None,
    )
    return (response.event for response in events)


@command(app, "plans.summary", reads=True, name="list", empty="there are no executions")
def list_executions(
    client: Client,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="The number of executions.")] = 20,
) -> object:
    """List executions, newest first."""
    return list(client.planner.list_executions(page_size=limit).executions)


@command(app, "plans.execution_status", reads=True)
def cancel(
    client: Client,
    execution: Execution,
    reason: Annotated[str, typer.Option(help="The reason.", show_default=False)] = "",
) -> object:
    """Cancel an execution: running tools get a signal, and no further step starts."""
    return client.planner.cancel_execution(execution_id=execution, reason=reason).execution


def _plan(client: Client, query: str, prefix: str) -> Plan:
    """Return the plan in a file or on stdin, else a new one for the query."""
    from google.protobuf.json_format import Parse, ParseError

    from hansei.planner.v1.planner_pb2 import Plan

    if query != STDIO and not (query.endswith(".json") and Path(query).is_file()):
        return client.planner.create_plan(query=query, prefix=prefix).plan
    try:
        return Parse(read_source_text(query), Plan())
    except ParseError as error:
        fail(f"{query} is not a plan: {error}", Exit.USAGE)
