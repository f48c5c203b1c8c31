"""The `hansei` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from hansei.client.cli import (
    config,
    datasets,
    doctor,
    edits,
    evaluation,
    guard_targets,
    guards,
    hooks,
    jobs,
    keys,
    learn,
    mcp,
    plan,
    playbook,
    query,
    relearn,
    report,
    rounds,
    stack,
    trajectories,
    trials,
    validate,
)
from hansei.client.cli.command import command
from hansei.client.cli.options import EXIT_CODES, CommandFailedError
from hansei.client.cli.root import RootGroup

EPILOG = "Exit codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in EXIT_CODES.items()) + "."

app = typer.Typer(
    name="hansei",
    cls=RootGroup,
    help="Let agents learn from their trajectories.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        typer.echo(f"hansei {version('hansei')}")
        raise typer.Exit


@app.callback()
def hansei(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Let agents learn from their trajectories."""


app.command("up")(stack.run_services)
app.command()(stack.demo)
app.command()(learn.learn)
command(app, "playbooks.render_edit_result")(edits.remember)
command(app, "playbooks.render_edit_result")(edits.forget)
command(app, "playbooks.render_edit_result")(edits.edit)
command(app, "search_results.render_bullets", reads=True)(query.search)
command(app, "search_results.render_answer", reads=True, check=query.exit_if_unanswered)(query.ask)
command(app, "findings.render_validation", reads=True, check=validate.exit_if_invalid)(validate.validate)
app.add_typer(report.app, name="report")
app.add_typer(rounds.app, name="rounds")
app.add_typer(trials.app, name="trials")
app.add_typer(trajectories.app, name="trajectories")
app.command()(relearn.relearn)
command(guards.app, "playbooks.render_edit_result", name="add")(guard_targets.add)
guards.app.command(name="from-policy")(guard_targets.from_policy)
app.add_typer(guards.app, name="guards")
command(app, "trials.effects", reads=True)(trials.effects)
command(app, "trials.decision", reads=True, empty="There are no decisions.")(trials.decisions)
command(app, "rounds.render_ranking", reads=True)(rounds.leaderboard)
command(app, "rounds.render_evaluation", reads=True)(rounds.evaluate)
command(app, "rounds.render_judgement", reads=True)(rounds.judge)
app.add_typer(playbook.app, name="playbook")
app.add_typer(datasets.app, name="dataset")
app.add_typer(jobs.app, name="jobs")
app.add_typer(plan.app, name="plan")
app.add_typer(hooks.app, name="hooks")
app.command("hook")(hooks.show_hook_help)
app.add_typer(keys.app, name="keys")
command(app, "access.format_audit_line", local=False, empty="There are no audit records.")(keys.audit)
app.add_typer(config.app, name="config")
app.add_typer(evaluation.app, name="eval")
app.command()(mcp.mcp)
app.command()(doctor.doctor)


@cache
def root_command() -> Any:
    """Return the command with all its subcommands; building them takes long, so it happens once."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and exit with one of `EXIT_CODES`."""
    try:
        root_command()(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="hansei")
    except CommandFailedError as failure:
        sys.stderr.write(f"Error: {failure.message}\n")
        sys.exit(failure.code)
    except Exception as failure:
        # The module of the errors loads slowly, so it is imported only after an error.
        from hansei.client.cli.failures import report_error

        code = report_error(failure)
        if code is None:
            raise
        sys.exit(code)
