"""`hansei plan …`: create plans, execute them, follow executions, answer their questions."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import STDIO, Exit, fail
from hansei.client.cli.sources import read_source_text

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.planner.v1.planner_pb2 import InterventionResponse, Plan

app = CommandGroup("Create plans, execute them and follow them.")

MOST_ANSWER_HOURS = 366 * 24
"""The limit of the contract for the time that a question waits."""

PATH_STARTS = ("/", "./", "../", "~/")
"""The beginnings of a path: a query of one word with such a beginning is refused as a missing file."""

Execution = Annotated[str, typer.Argument(metavar="EXECUTION", help="The id of the execution.")]
Prefix = Annotated[
    str,
    typer.Option(
        help="Use only datasets and collections whose names begin with this, which ends in a hyphen.",
        show_default=False,
    ),
]
Collections = Annotated[
    list[str] | None,
    typer.Option(
        "--collection",
        "--dataset",
        "-d",
        help="Search only this dataset or document collection. [default: all]",
        show_default=False,
    ),
]


class AnswerAction(StrEnum):
    """The decisions that answer a question."""

    PROCEED = "proceed"
    RETRY = "retry"
    SKIP = "skip"
    REMOVE = "remove"
    MODIFY = "modify"
    CANCEL = "cancel"


def exit_with_status(event: Any) -> None:
    """End the command with the exit code for the last event of an execution."""
    from hansei.client.cli.show import plans

    code = plans.choose_exit_code(event)
    if code is not Exit.DONE:
        raise typer.Exit(code)


@command(app, "plans.render_made_plan")
def create(
    client: Client,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The task to plan.")],
    hints: Annotated[str, typer.Option(help="Hints for the model that makes the plan.", show_default=False)] = "",
    prefix: Prefix = "",
    collections: Collections = None,
) -> object:
    """Create a plan for a query; --json prints it in the form that `plan run` reads."""
    response = client.planner.create_plan(
        query=query, hints=hints, prefix=prefix, collection=_choose_collection(collections)
    )
    return response.plan, response.template_reason if response.from_template else "", response.model_usage


@command(app, "plans.render_made_plan")
def refine(
    client: Client,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A plan as JSON, from `plan create --json`.")],
    feedback: Annotated[str, typer.Argument(metavar="FEEDBACK", help="The change that the plan needs, as text.")],
    prefix: Prefix = "",
) -> object:
    """Change a plan by feedback; --json prints it in the form that `plan run` reads.

    Changing a plan needs a model. Exits with 1 if the plan could not be changed.
    """
    response = client.planner.refine_plan(plan=_read_plan(file), feedback=feedback, prefix=prefix)
    if response.reason:
        fail(f"the plan is unchanged: {response.reason}")
    return response.plan, "", response.model_usage


@command(app, "plans.render_event", check=exit_with_status)
def run(
    client: Client,
    query: Annotated[str, typer.Argument(metavar="QUERY|FILE|-", help="A query, or a plan as JSON.")],
    prefix: Prefix = "",
    collections: Collections = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            min=0, max=1e9, metavar="USD", help="End the execution when its model calls have cost this many US dollars."
        ),
    ] = None,
    allow_unknown_price: Annotated[
        bool, typer.Option("--allow-unknown-price", help="Accept --max-cost for a model whose price is unknown.")
    ] = False,
    answer_hours: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=MOST_ANSWER_HOURS,
            metavar="HOURS",
            help="Hours until a question expires and the execution is cancelled. [default: 168, or the server's]",
            show_default=False,
        ),
    ] = None,
) -> object:
    """Execute a plan and show its events until it ends or asks a question.

    The execution continues if this command is interrupted. Exits with 5 if it waits for an answer, with 1 if it failed.
    """
    from google.protobuf.duration_pb2 import Duration

    from hansei.planner.v1.planner_pb2 import Budget

    limit = round(1e6 * (max_cost or 0))
    if max_cost is not None and not limit:
        fail(f"--max-cost is {max_cost:g}; the least is 0.000001 US dollars", Exit.USAGE)
    events = client.planner.execute_plan(
        plan=_read_or_create_plan(client, query, prefix, _choose_collection(collections)),
        prefix=prefix,
        budget=Budget(
            max_cost_micro_usd=limit,
            allow_unknown_price=allow_unknown_price,
            max_answer_time=None if answer_hours is None else Duration(seconds=round(3600 * answer_hours)),
        ),
    )
    return (response.event for response in events)


@command(app, "plans.render_event", check=exit_with_status)
def watch(
    client: Client,
    execution: Execution,
    after: Annotated[int, typer.Option(min=0, help="Show only events after this sequence number.")] = 0,
) -> object:
    """Show the events of an execution until it ends or asks a question."""
    events = client.planner.watch_execution(execution_id=execution, after_sequence=after, until_paused=True)
    return (response.event for response in events)


@command(app, "plans.render_event", check=exit_with_status)
def answer(
    client: Client,
    execution: Execution,
    text: Annotated[
        str, typer.Argument(metavar="ANSWER", help="One of the options of the question, or free text.")
    ] = "",
    action: Annotated[
        AnswerAction | None,
        typer.Option(
            "--action",
            "-a",
            help="proceed: continue. retry: run the step again. skip: skip it and the steps that depend on it. "
            "remove: remove it, and run the steps that depend on it. modify: change the plan as ANSWER says. "
            "cancel: cancel the execution.",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        str, typer.Option(metavar="FILE|-", help="Continue with this plan, as JSON.", show_default=False)
    ] = "",
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit the rest of the plan in $EDITOR and continue with it.")
    ] = False,
) -> object:
    """Answer the question of a paused execution and follow the execution."""
    status = client.planner.get_execution(execution_id=execution).execution
    if not status.HasField("intervention_request"):
        fail(f"execution {execution} does not wait for an answer")
    question = status.intervention_request
    new_plan = (
        _edit_plan(_read_remaining_plan(status.plan, question.step_id)) if edit else _read_plan(plan) if plan else None
    )
    events = client.planner.resume_plan(
        execution_id=execution,
        response=_read_response(text, list(question.options), action, new_plan),
        answer_token=question.answer_token,
        plan_version=question.plan_version,
        step_id=question.step_id if question.HasField("step_id") else None,
    )
    return (response.event for response in events)


@command(app, "plans.render_summary", reads=True, name="list", empty="There are no executions.")
def list_executions(
    client: Client,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="The number of executions.")] = 20,
) -> object:
    """List executions, newest first."""
    return list(client.planner.list_executions(page_size=limit).executions)


@command(app, "plans.render_execution_status", reads=True)
def cancel(
    client: Client,
    execution: Execution,
    reason: Annotated[str, typer.Option(help="The reason.", show_default=False)] = "",
) -> object:
    """Cancel an execution: running tools are cancelled, and no further step starts."""
    return client.planner.cancel_execution(execution_id=execution, reason=reason).execution


@command(app, "plans.render_information")
def inform(
    client: Client,
    execution: Execution,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The information.")],
) -> object:
    """Add information to a running or paused execution, which replans before its next step."""
    return client.planner.add_information(execution_id=execution, text=text), execution


@command(app, "plans.render_feedback")
def feedback(
    client: Client,
    execution: Execution,
    step: Annotated[int, typer.Argument(metavar="STEP", min=1, help="The number of the step.")],
    correct: Annotated[
        bool | None,
        typer.Option("--correct/--wrong", help="Report the result as correct, or as wrong; one is required."),
    ] = None,
) -> object:
    """Report whether the result of a step was correct. The confidence thresholds follow these labels."""
    if correct is None:
        fail("set --correct or --wrong: the label of the result", Exit.USAGE)
    return client.planner.submit_feedback(execution_id=execution, step_id=step, correct=correct)


@command(app, "plans.render_thresholds")
def thresholds(
    client: Client,
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete all feedback and restore the configured thresholds.")
    ] = False,
) -> object:
    """Show the thresholds: the confidence from which a step continues without a question."""
    if reset:
        client.planner.reset_thresholds()
    return client.planner.get_thresholds()


def _read_response(
    text: str, options: list[str], action: AnswerAction | None, new_plan: Plan | None
) -> InterventionResponse:
    """Return the answer that the arguments of `plan answer` mean."""
    from hansei.planner.v1.planner_pb2 import InterventionAction, InterventionResponse

    if new_plan is not None:
        if action not in (None, AnswerAction.MODIFY):
            fail(f"--plan and --edit cannot be combined with --action {action}", Exit.USAGE)
        action = AnswerAction.MODIFY
    if action is not None:
        removes = action is AnswerAction.REMOVE
        number = InterventionAction.Value(f"INTERVENTION_ACTION_{(AnswerAction.SKIP if removes else action).upper()}")
        return InterventionResponse(action=number, user_input=text or None, modified_plan=new_plan, remove_step=removes)
    if not text:
        fail("give one answer: a text, an option of the question, --action, --plan or --edit", Exit.USAGE)
    return InterventionResponse(selected_option=text) if text in options else InterventionResponse(user_input=text)


def _choose_collection(names: list[str] | None) -> str:
    """Return the collection to search; empty: all. Ends the command if several are named."""
    if len(set(names or ())) > 1:
        fail(f"--collection names {', '.join(names or ())}: a plan searches one collection, or all", Exit.USAGE)
    return names[0] if names else ""


def _read_or_create_plan(client: Client, query: str, prefix: str, collection: str) -> Plan:
    """Return the plan in a file or on stdin, else a new one for the query."""
    if query == STDIO or (query.endswith(".json") and Path(query).is_file()):
        if collection:
            fail("--collection goes with a query; the steps of a plan name their own", Exit.USAGE)
        return _read_plan(query)
    if not re.search(r"\s", query) and (query.endswith(".json") or query.startswith(PATH_STARTS)):
        fail(f"{query} is not a file with a plan as JSON; a query that is a path needs more words", Exit.USAGE)
    return client.planner.create_plan(query=query, prefix=prefix, collection=collection).plan


def _read_plan(file: str) -> Plan:
    return _parse_plan(file, read_source_text(file))


def _read_remaining_plan(plan: Plan, paused_step: int) -> Plan:
    """Return the part that a new plan replaces: from the paused step on, without a paused step the whole plan."""
    ids = [step.step_id for step in plan.steps]
    del plan.steps[: ids.index(paused_step) if paused_step in ids else 0]
    plan.ClearField("estimated_steps")
    remaining = {step.step_id for step in plan.steps}
    for step in plan.steps:
        step.depends_on[:] = [dependency for dependency in step.depends_on if dependency in remaining]
    return plan


def _edit_plan(plan: Plan) -> Plan:
    """Return the plan as the person saves it in an editor."""
    import click
    from google.protobuf.json_format import MessageToJson

    present_text = MessageToJson(plan, preserving_proto_field_name=True, ensure_ascii=False)
    try:
        text = click.edit(present_text, extension=".json", require_save=False)
    except (click.ClickException, ValueError) as error:
        fail(f"the editor failed, the question is still open: {error}")
    return _parse_plan("the edited text", text or "")


def _parse_plan(source: str, text: str) -> Plan:
    from chassis.errors import InvalidArgument
    from chassis.json_faults import parse_message
    from chassis.json_texts import NestedTooDeeply, parse_shallow_json
    from hansei.planner.v1.planner_pb2 import Plan

    try:
        plan: Plan = parse_message(parse_shallow_json(text), Plan.DESCRIPTOR)
    except NestedTooDeeply as error:
        fail(f"{source} {error}", Exit.USAGE)
    except json.JSONDecodeError as error:
        fail(f"{source} is not JSON: {error}", Exit.USAGE)
    except InvalidArgument as error:
        fail(f"{source} is {error.message}", Exit.USAGE)
    return plan
