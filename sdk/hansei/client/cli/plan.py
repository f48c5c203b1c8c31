"""`hansei plan …`: make plans, execute them, follow them, answer their questions."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.options import Address, AsJson, Exit, Local, connected, fail

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.planner.v1.planner_pb2 import ExecutionEvent, Plan
    from hansei.planner.v1.planner_service_pb2 import ExecutePlanResponse, ResumePlanResponse, WatchExecutionResponse

    Streamed = ExecutePlanResponse | ResumePlanResponse | WatchExecutionResponse

app = typer.Typer(help="Make plans, execute and follow them.", no_args_is_help=True, rich_markup_mode=None)

STDIN = "-"
Execution = Annotated[str, typer.Argument(metavar="EXECUTION", help="Id of the execution.")]
_SEES = "See only datasets and collections whose names begin with this; ends in a hyphen."
Prefix = Annotated[str, typer.Option(help=_SEES, show_default=False)]


@app.command()
def create(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is to be done.")],
    hints: Annotated[str, typer.Option(help="Hints for the model.", show_default=False)] = "",
    prefix: Prefix = "",
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Make a plan for a query; with --json in the form that `plan run` reads."""
    with connected(addr, local) as client:
        made = client.planner.create_plan(query=query, hints=hints, prefix=prefix)
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import plans

    if as_json:
        print_json(made.plan)
    else:
        console().print(plans.plan(made.plan, made.template_reason if made.from_template else ""))


@app.command()
def run(
    query: Annotated[str, typer.Argument(metavar="QUERY|FILE|-", help="A query, or a plan as JSON.")],
    prefix: Prefix = "",
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Execute a plan and show its events until it ends or asks something.

    It goes on when this command is interrupted. Exits with 4 when it waits for an answer, with 1 when it failed.
    """
    with connected(addr, local) as client:
        made = _plan_of(client, query, prefix)
        _follow(client.planner.execute_plan(plan=made, prefix=prefix), as_json)


@app.command()
def watch(
    execution: Execution,
    after: Annotated[int, typer.Option(min=0, help="Only events after this sequence number.")] = 0,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Show the events of an execution until it ends or asks something."""
    with connected(addr, local) as client:
        events = client.planner.watch_execution(execution_id=execution, after_sequence=after, until_paused=True)
        _follow(events, as_json)


@app.command()
def answer(
    execution: Execution,
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="What to say; an offered option, or free text.")],
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Answer the question of a paused execution and follow it."""
    from hansei.planner.v1.planner_pb2 import InterventionResponse

    with connected(addr, local) as client:
        found = client.planner.get_execution(execution_id=execution).execution
        if not found.HasField("intervention_request"):
            fail(f"execution {execution} waits for no answer")
        question = found.intervention_request
        offered = text in question.options
        events = client.planner.resume_plan(
            execution_id=execution,
            response=InterventionResponse(
                selected_option=text if offered else None, user_input=None if offered else text
            ),
            answer_token=question.answer_token,
            plan_version=question.plan_version,
            step_id=question.step_id if question.HasField("step_id") else None,
        )
        _follow(events, as_json)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many, newest first.")] = 20,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """List executions."""
    with connected(addr, local) as client:
        found = client.planner.list_executions(page_size=limit).executions
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import plans

    for each in found:
        if as_json:
            print_json(each, line=True)
        else:
            console().print(plans.summary(each))
    if not found and not as_json:
        console().print("no plan was executed yet")


@app.command()
def cancel(
    execution: Execution,
    reason: Annotated[str, typer.Option(help="Why.", show_default=False)] = "",
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Cancel an execution: running tools are told, nothing starts afterwards."""
    with connected(addr, local) as client:
        found = client.planner.cancel_execution(execution_id=execution, reason=reason).execution
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import plans

    if as_json:
        print_json(found)
    else:
        console().print(plans.status(found.status))


def _plan_of(client: Client, query: str, prefix: str) -> Plan:
    """The plan in a file or on stdin, else a new one for the query."""
    from google.protobuf.json_format import Parse, ParseError

    from hansei.planner.v1.planner_pb2 import Plan

    is_file = query.endswith(".json") and Path(query).is_file()
    if query != STDIN and not is_file:
        return client.planner.create_plan(query=query, prefix=prefix).plan
    text = sys.stdin.read() if query == STDIN else Path(query).read_text(encoding="utf-8")
    try:
        return Parse(text, Plan())
    except ParseError as error:
        fail(f"{query} is no plan: {error}", Exit.USAGE)


def _follow(events: Iterable[Streamed], lines: bool) -> None:
    """Show events as they come; the exit code says how the last one leaves the execution."""
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import plans

    last: ExecutionEvent | None = None
    for response in events:
        last = response.event
        if lines:
            print_json(last, line=True)
        else:
            console().print(plans.event(last))
    code = plans.exit_code(last)
    if code is not Exit.DONE:
        raise typer.Exit(code)
