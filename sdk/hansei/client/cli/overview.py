"""`hansei status` and `hansei open`: the overview in the terminal, and the console in a browser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import CONNECT_SECONDS, Exit, fail
from hansei.client.hooks.agents import DEFAULT_URL, URL_VARIABLE

if TYPE_CHECKING:
    from hansei.client.client import Client

commands = CommandGroup()


@command(commands, "status.render_status", reads=True)
def status(client: Client) -> object:
    """Show the datasets, the effects of their playbooks, and the items that need a person.

    Lists every dataset with its archived trajectories, the share of successes in the newest 90 days that have any, with
    a 95 % interval, the measured effect of the playbook if it is on trial, the tokens and the cost that the logs of the
    agents state, and the newest revision. A success that only the agent itself states counts as one. Below: pending
    changes, questions of executions and dead letters.
    """
    from hansei.client.cli.status import read_status

    return read_status(client)


@commands.command("open")
def open_console(
    page: Annotated[
        str,
        typer.Argument(metavar="PAGE", help="A page of the console: overview, playbooks, inbox, executions or health."),
    ] = "",
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="HANSEI_CONSOLE_URL",
            help=f"The console. [default: /console/ of HANSEI_URL, which is {DEFAULT_URL} unless it is set]",
        ),
    ] = "",
    print_only: Annotated[bool, typer.Option("--print", help="Print the address; open no browser.")] = False,
) -> None:
    """Open the console in the browser."""
    import webbrowser

    address = url or f"{(os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip('/')}/console/"
    _fail_if_unreachable(address)
    target = f"{address.rstrip('/')}/#/{page.lstrip('#/')}" if page else address
    typer.echo(target)
    if not print_only and not webbrowser.open(target):
        fail(f"no browser was found; open {target} yourself", Exit.FAILED)


def _fail_if_unreachable(address: str) -> None:
    """End the command if no server answers at the address of the console."""
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    try:
        urllib.request.urlopen(address, timeout=CONNECT_SECONDS).close()  # noqa: S310  the address is the user's own
    except urllib.error.HTTPError:
        return  # a server answered, for example with the request to sign in
    except (OSError, ValueError, HTTPException) as error:
        cause: Any = getattr(error, "reason", error)
        reason = getattr(cause, "strerror", None) or cause
        fail(
            f"the console does not answer at {address} ({reason}); start it with `hansei up`, or name it with --url",
            Exit.UNREACHABLE,
        )
