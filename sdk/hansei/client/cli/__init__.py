"""The `hansei` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from hansei.client.cli import (
    asking,
    config,
    doctor,
    evaluation,
    jobs,
    keys,
    learning,
    mcp,
    plan,
    playbook,
    stack,
    validating,
)
from hansei.client.cli.options import EXIT_CODES, CommandFailedError

EPILOG = "Exit codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in EXIT_CODES.items()) + "."

app = typer.Typer(
    name="hansei",
    help="Agents that learn from what they did.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"hansei {version('hansei')}")
        raise typer.Exit


@app.callback()
def hansei(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Agents that learn from what they did."""


app.command()(stack.up)
app.command()(stack.demo)
app.command()(learning.learn)
app.command()(asking.search)
app.command()(asking.ask)
app.command()(validating.validate)
app.add_typer(playbook.app, name="playbook")
app.add_typer(jobs.app, name="jobs")
app.add_typer(plan.app, name="plan")
app.add_typer(keys.app, name="keys")
app.command()(keys.audit)
app.add_typer(config.app, name="config")
app.add_typer(evaluation.app, name="eval")
app.command()(mcp.mcp)
app.command()(doctor.doctor)


@cache
def root_command() -> Any:
    """The command with all below it, put together once: that takes longer than most of what it is asked to do."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exits with a code of `Exit`."""
    try:
        root_command()(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="hansei")
    except CommandFailedError as failure:
        sys.stderr.write(f"Error: {failure.message}\n")
        sys.exit(failure.code)
    except Exception as failure:
        # Only now is it worth loading what tells our errors from bugs.
        from hansei.client.cli.failures import exit_code_of

        code = exit_code_of(failure)
        if code is None:
            raise
        sys.exit(code)
