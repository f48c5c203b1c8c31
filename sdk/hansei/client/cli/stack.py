"""`hansei up` and `hansei demo`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import AsJson, DataDirectory
from hansei.client.data_directory import find_data_directory

commands = CommandGroup()

HOW_TO_USE_A_MODEL = "rules, no model and no key; to use a model, set OPENAI_API_KEY (or LLM_PROVIDER) and start again"


@commands.command("up")
def run_services(
    address: Annotated[
        str | None,
        typer.Option(
            "--listen",
            envvar="HANSEI_LISTEN_ADDRESS",
            metavar="HOST:PORT",
            help="The gRPC address. [default: 127.0.0.1:50050]",
        ),
    ] = None,
    data_dir: DataDirectory = None,
) -> None:
    """Run every service in this process, until ctrl-c.

    Calls in progress are finished before the process ends. Settings come from the environment: HANSEI_HTTP_ADDRESS is
    where HTTP and the console are served, 127.0.0.1:8080 unless it is set. Without LLM_PROVIDER, OPENAI_API_KEY and
    OPENAI_BASE_URL the services run offline: by rules, without a model and without a key.
    """
    from hansei.client.cli.embedded_stack import build_stack_variables
    from hansei.client.cli.output import say
    from hansei.client.llm_provider import OFFLINE, PROVIDER_VARIABLE
    from hansei.client.server import load_server

    server = load_server()
    variables = build_stack_variables()
    provider = variables[PROVIDER_VARIABLE]

    def announce(running_address: str, http_url: str, embedder: str) -> None:
        say(f"hansei is up at {running_address}")
        if http_url:
            say(f"  console     {http_url}/console/")
        say(f"  http        {http_url or 'off: HANSEI_HTTP_ADDRESS is empty'}")
        say(f"  grpc        {running_address}")
        say(f"  data        {find_data_directory()}")
        say(f"  model       {provider}{': ' + HOW_TO_USE_A_MODEL if provider == OFFLINE else ''}")
        say(f"  embedder    {embedder}")
        say(f"  try         {list_first_commands(running_address)}")
        say("  ctrl-c      finish the calls in progress and stop")

    os.environ |= variables
    os.environ.setdefault("HANSEI_LOG_FORMAT", "console")
    os.environ.setdefault("HANSEI_LOG_LEVEL", "WARNING")
    server.run_stack(address, announce)


def list_first_commands(address: str) -> str:
    """Return commands that reach a server at this gRPC address, for a first look."""
    from hansei.client.client import DEFAULT_ADDRESS

    option = "" if address == DEFAULT_ADDRESS else f" --addr {address}"
    examples = ("learn FILE", "search QUERY", "ask QUERY", "playbook show")
    return " · ".join(f"hansei {example}{option}" for example in examples)


@commands.command()
def demo(
    trajectories: Annotated[
        Path | None, typer.Option(help="A folder of trajectories. [default: the bundled ones]", file_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the learning loop on recorded trajectories, offline.

    Learns from the trajectories, searches the lessons, answers a question, and learns from a trajectory that used a
    bullet. Everything happens in this process, in a directory that is removed at the end: no server, no key, no
    network.
    """
    from hansei.client.cli.demo import run_demo

    run_demo(trajectories, as_json)
