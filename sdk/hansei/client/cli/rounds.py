"""`hansei rounds …`, `evaluate`, `judge` and `leaderboard`: run teams in rounds, score and rank submissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import STDIO, Exit, fail
from hansei.client.cli.sources import read_source_text
from hansei.client.pages import iterate_items

if TYPE_CHECKING:
    from hansei.client.client import Client

app = CommandGroup("Let teams answer one prompt in rounds.")
commands = CommandGroup()

FILE_MARK = "@"
"""The first character of an argument that names a file instead of the text itself."""

Execution = Annotated[str, typer.Argument(metavar="EXECUTION", help="The id of the execution.")]
Model = Annotated[
    str | None, typer.Option(help="The model as provider:model-name. [default: the server's]", show_default=False)
]


def exit_with_teams(event: Any) -> None:
    """End the command with 1 if every team failed, with 5 if some did."""
    from hansei.gateway.v1.rounds_service_pb2 import ROUNDS_STATUS_FAILED

    failed_teams = [team for team in event.result.teams if team.status == ROUNDS_STATUS_FAILED]
    if failed_teams:
        raise typer.Exit(Exit.PARTLY if len(failed_teams) < len(event.result.teams) else Exit.FAILED)


@command(app, "rounds.render_event", check=exit_with_teams)
def run(
    client: Client,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The prompt: text, @FILE, or - for stdin.")],
    team: Annotated[
        list[str],
        typer.Option("--team", metavar="ID[=INSTRUCTION]", help="A team and its instruction; repeatable."),
    ],
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="The dataset whose bullets the teams get.", show_default=False)
    ] = None,
    min_rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of a team before the judge decides. [default: 2]")
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option(min=1, max=10, help="The maximum number of rounds of a team. [default: 5]")
    ] = None,
    execution: Annotated[
        str | None, typer.Option(help="A new id for this execution. [default: a random UUID]", show_default=False)
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model that scores, as provider:model-name.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="The model of the judge, as provider:model-name.")] = None,
) -> object:
    """Let teams answer a prompt in rounds, and show each finished round and the ranking.

    Exits with 1 if every team failed, with 5 if some did. If the command is interrupted, the teams
    stop; completed rounds stay.
    """
    from hansei.gateway.v1.rounds_service_pb2 import Team
    from hansei.validator.v1.evaluation_pb2 import EvaluationConfig

    teams = []
    for name, _, instruction in (option.partition("=") for option in team):
        teams.append(Team(team_id=name, team_name=name, dataset=dataset, instruction=instruction))
    return client.rounds.run_rounds(
        user_prompt=_read_text(prompt),
        teams=teams,
        execution_id=execution,
        min_rounds=min_rounds,
        max_rounds=max_rounds,
        evaluation=EvaluationConfig(model=model) if model else None,
        judge_model=judge_model,
    )


@command(app, "rounds.render_leaderboards", reads=True, name="list", empty="No teams have worked in rounds yet.")
def list_rounds(
    client: Client,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="The number of executions.")] = 20,
) -> object:
    """List the executions of rounds, newest first."""
    return list(client.leaderboard.list(page_size=limit).leaderboards)


@command(app, "rounds.render_entry", reads=True)
def show(
    client: Client,
    execution: Execution,
    team: Annotated[str | None, typer.Option(help="Show only this team.", show_default=False)] = None,
    best: Annotated[bool, typer.Option("--best", help="Show only the best submission.")] = False,
) -> object:
    """Show the submissions of an execution by team and round, with scores and judgements."""
    if best:
        return [client.leaderboard.get_best_submission(execution_id=execution, team_id=team).entry]
    entries = iterate_items(client.leaderboard.list_entries, "entries", execution_id=execution)
    found = [entry for entry in entries if team in (None, entry.key.team_id)]
    return found or _fail_unknown(execution, team)


@command(commands, "rounds.render_ranking", reads=True)
def leaderboard(
    client: Client,
    execution: Execution,
    shrunken: Annotated[
        bool, typer.Option("--shrunken", help="Rank by an estimate of the mean, not by the best round.")
    ] = False,
) -> object:
    """Rank the teams of an execution."""
    from hansei.validator.v1.leaderboard_service_pb2 import RANKING_ORDER_MAX_SCORE, RANKING_ORDER_SHRUNKEN

    order = RANKING_ORDER_SHRUNKEN if shrunken else RANKING_ORDER_MAX_SCORE
    ranking = client.leaderboard.get_ranking(execution_id=execution, order=order)
    return ranking if ranking.rows else _fail_unknown(execution)


@command(commands, "rounds.render_evaluation", reads=True)
def evaluate(
    client: Client,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question that the submission answers.")],
    submission: Annotated[
        str, typer.Argument(metavar="SUBMISSION", help="The submission: text, @FILE, or - for stdin.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=WEIGHT]", help="ClarityCoherence, Coverage or Relevance; repeatable. [default: all]"
        ),
    ] = None,
    model: Model = None,
    samples: Annotated[int, typer.Option(min=1, max=50, help="The maximum number of scores for each metric.")] = 1,
) -> object:
    """Score a submission from 0 to 100 by each metric."""
    from hansei.validator.v1.evaluation_pb2 import EvaluationConfig, MetricConfig, RepeatedScoring

    metrics = []
    for name, _, weight in (option.partition("=") for option in metric or ()):
        metrics.append(MetricConfig(name=name, weight=_parse_weight(name, weight) if weight else None))
    return client.evaluator.evaluate(
        user_query=query,
        submission=_read_text(submission),
        config=EvaluationConfig(metrics=metrics, model=model),
        repeated_scoring=RepeatedScoring(min_samples=min(samples, 3), max_samples=samples) if samples > 1 else None,
    )


@command(commands, "rounds.render_judgement", reads=True)
def judge(
    client: Client,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The finished prompt: text, @FILE, or - for stdin.")],
    model: Model = None,
) -> object:
    """Ask the judge whether another round is worthwhile; the prompt holds the rounds so far."""
    return client.evaluator.judge(formatted_prompt=_read_text(prompt), model=model)


def _read_text(argument: str) -> str:
    """Return the text of an argument: the content of a file or of stdin, else the argument itself."""
    if argument != STDIO and not argument.startswith(FILE_MARK):
        return argument
    return read_source_text(argument.removeprefix(FILE_MARK))


def _parse_weight(name: str, weight: str) -> float:
    try:
        return float(weight)
    except ValueError:
        fail(f"the weight of {name} is not a number: {weight}", Exit.USAGE)


def _fail_unknown(execution: str, team: str | None = None) -> object:
    fail(f"execution {execution} has no rounds" + (f" of team {team}" if team else ""), Exit.NOT_FOUND)
