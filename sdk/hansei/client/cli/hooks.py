"""`hansei hooks install|status|uninstall`, and the help of `hansei hook`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import AsJson, Exit, fail
from hansei.client.hooks.agents import AGENTS, DEFAULT_DATASET, DEFAULT_URL, URL_VARIABLE
from hansei.client.hooks.handlers import HookOptions, build_handlers, find_program, find_settings_file, get_base
from hansei.client.hooks.run import check_dataset
from hansei.client.hooks.settings_file import SettingsChange, UnreadableSettings, list_own_handlers
from hansei.client.hooks.settings_file import install as install_handlers
from hansei.client.hooks.settings_file import uninstall as uninstall_handlers

app = CommandGroup("Give coding agents their lessons, and learn from them.")
commands = CommandGroup()

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class AgentName(StrEnum):
    """The agents that call hooks."""

    CLAUDE = "claude"
    CODEX = "codex"
    CURSOR = "cursor"


AgentArgument = Annotated[AgentName, typer.Argument(metavar="claude|codex|cursor", help="The agent.")]
User = Annotated[
    bool, typer.Option("--user/--project", help="For all projects of this user, or for the project in this folder.")
]


@app.command()
def install(
    agent: AgentArgument,
    user: User = True,
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="The dataset.")] = DEFAULT_DATASET,
    url: Annotated[
        str,
        typer.Option(
            "--url",
            metavar="URL",
            envvar=URL_VARIABLE,
            help=f"The HTTP address of the gateway; the hooks keep it. [default: {DEFAULT_URL}]",
        ),
    ] = "",
    addr: Annotated[
        str,
        typer.Option(
            "--addr",
            metavar="HOST:PORT",
            envvar="HANSEI_ADDR",
            help="The gRPC address of the gateway, for learning; the hooks keep it.",
        ),
    ] = "",
    checks: Annotated[
        bool, typer.Option("--checks/--no-checks", help="Only for claude: check each tool call before it is made.")
    ] = True,
    http: Annotated[
        bool,
        typer.Option(
            "--http", help="Only for claude: send prompts and tool calls over HTTP, without starting a process."
        ),
    ] = False,
) -> None:
    """Add the hooks to the settings of an agent, in place of earlier ones.

    At the start of a session and at each prompt the agent gets the lessons that fit; when the session ends, hansei
    learns from its transcript. Other entries of the file stay; the file as it was before the hooks is kept with the
    suffix .before-hansei.
    """
    if http:
        _check_http(agent, url)
    try:
        check_dataset(dataset)
    except ValueError as error:
        fail(str(error), Exit.USAGE)
    options = HookOptions(dataset, url, addr, checks_calls=checks, over_http=http)
    handlers = build_handlers(agent, options, find_program(is_user=user))
    file = find_settings_file(agent, is_user=user)
    try:
        change = install_handlers(file, handlers, get_base(agent))
    except UnreadableSettings as error:
        fail(str(error), Exit.USAGE)
    title = AGENTS[agent].title
    _print_change(change, f"{title} calls hansei at {', '.join(handlers)}: {file}", "The hooks were installed before")
    if agent is AgentName.CODEX and change.is_changed:
        typer.echo("Codex runs new hooks after you have reviewed them: type /hooks in a session.")


@app.command()
def uninstall(agent: AgentArgument, user: User = True) -> None:
    """Remove the hooks from the settings of an agent. Other entries stay."""
    file = find_settings_file(agent, is_user=user)
    try:
        change = uninstall_handlers(file, get_base(agent))
    except UnreadableSettings as error:
        fail(str(error), Exit.USAGE)
    _print_change(change, f"Removed the hooks of {AGENTS[agent].title}: {file}", "No hooks are installed")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show which hooks are installed, for this user and for the project in this folder."""
    from hansei.client.cli.output import print_json

    rows = [_describe(name, is_user=is_user) for name in AgentName for is_user in (True, False)]
    if as_json:
        print_json({"hooks": rows})
        return
    for row in rows:
        state = row["problem"] or ", ".join(row["events"]) or "not installed"
        typer.echo(f"{AGENTS[row['agent']].title:12} {row['scope']:8} {state}  ({row['file']})")


@commands.command("hook")
def show_hook_help(
    agent: AgentArgument,
    dataset: Annotated[str, typer.Option("--dataset", help="The dataset.")] = DEFAULT_DATASET,
    url: Annotated[str, typer.Option("--url", help="The HTTP address of the gateway.")] = DEFAULT_URL,
    addr: Annotated[str, typer.Option("--addr", help="The gRPC address of the gateway, for learning.")] = "",
) -> None:
    """Process one hook event of an agent, from stdin to stdout. Agents run this command.

    If the gateway does not respond within 0.2 seconds (HANSEI_HOOK_SECONDS), the agent continues, and one line says so.
    """
    from hansei.client.hooks.run import main

    raise typer.Exit(main([agent, "--dataset", dataset, "--url", url, "--addr", addr]))


def _check_http(agent: AgentName, url: str) -> None:
    if agent is not AgentName.CLAUDE:
        fail(f"--http: {AGENTS[agent].title} has no hooks of type http", Exit.USAGE)
    if urlsplit(url or DEFAULT_URL).hostname not in _LOOPBACK:
        fail("--http: Claude Code posts secrets unmasked, so the gateway must be on this machine", Exit.USAGE)


def _print_change(change: SettingsChange, done: str, nothing: str) -> None:
    typer.echo(done if change.is_changed else f"{nothing}: {change.file}")
    if change.backup:
        typer.echo(f"The former file was saved as {change.backup}")


def _describe(name: AgentName, *, is_user: bool) -> dict[str, Any]:
    file = find_settings_file(name, is_user=is_user)
    events, problem = [], ""
    try:
        events = list(list_own_handlers(file))
    except UnreadableSettings as error:
        problem = str(error)
    scope = "user" if is_user else "project"
    return {"agent": str(name), "scope": scope, "file": str(file), "events": events, "problem": problem}
