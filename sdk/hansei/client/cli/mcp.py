"""`hansei mcp`."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import DATASET_VARIABLE, Address, DataDirectory, Local

commands = CommandGroup()


@commands.command()
def mcp(
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset", "-d", envvar=DATASET_VARIABLE, help="The playbook for tool calls without a playbook name."
        ),
    ] = "",
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="HOST:PORT at which to serve streamable HTTP, instead of stdin and stdout.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A host name under which clients reach it; repeatable."),
    ] = None,
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
) -> None:
    """Serve the playbook to MCP clients.

    Has tools to search and read the playbook, to learn from a trajectory and to vote. The entry in the settings of a
    client is {"command": "hansei", "args": ["mcp", "--local"]}; without --local it uses a running hansei.
    """
    import asyncio

    with suppress(KeyboardInterrupt):  # ctrl-c is the normal end of a server
        asyncio.run(_serve(dataset, http, allow_host or [], addr, local))


async def _serve(dataset: str, http: str | None, allowed_hosts: list[str], addr: str | None, local: bool) -> None:
    from hansei.client.cli.embedded_stack import embedded_async_client
    from hansei.client.cli.output import say
    from hansei.client.client import AsyncClient
    from hansei.mcp_server.server import create_server
    from hansei.mcp_server.transports import serve_http

    # Logs go to stderr: stdout belongs to MCP.
    async with embedded_async_client() if local else AsyncClient(addr) as client:
        server = create_server(client, dataset)
        if http is None:
            await server.run_stdio_async()
        else:
            await serve_http(server, http, allowed_hosts, lambda url: say(f"hansei's MCP server is up at {url}"))
