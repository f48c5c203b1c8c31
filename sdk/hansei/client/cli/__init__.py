"""The `hansei` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from hansei.client.cli.options import EXIT_CODES, CommandFailedError
from hansei.client.cli.output import say
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


@cache
def root_command() -> Any:
    """Return the command; its subcommands are loaded when they are used."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and exit with one of `EXIT_CODES`."""
    try:
        root_command()(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="hansei")
    except CommandFailedError as failure:
        say(f"Error: {failure.message}")
        sys.exit(failure.code)
    except Exception as failure:
        # The module of the errors loads slowly, so it is imported only after an error.
        from hansei.client.cli.failures import report_error

        code = report_error(failure, sys.argv[1:] if arguments is None else arguments)
        if code is None:
            raise
        sys.exit(code)
