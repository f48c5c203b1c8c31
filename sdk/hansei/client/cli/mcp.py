"""`hansei mcp`."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import DATASET_VARIABLE, Address, AllowedHosts, DataDirectory, Local

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
            help="Serve streamable HTTP at this address, instead of stdin and stdout.",
        ),
    ] = None,
    allow_host: AllowedHosts = None,
    issuer: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The issuer of tokens for OAuth clients; callers over HTTP then need its token, or an API key of the "
            "gateway.",
            show_default=False,
        ),
    ] = "",
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The URL under which clients reach the server, with its path; default: that of --http.",
            show_default=False,
        ),
    ] = "",
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
) -> None:
    """Serve the playbook to MCP clients.

    The server has tools to search and read the playbook, to learn from a trajectory and to vote. The entry in
    the settings of a client is {"command": "hansei", "args": ["mcp", "--local"]}; without --local it uses a running
    hansei.
    """
    import asyncio

    with suppress(KeyboardInterrupt):  # ctrl-c is the normal end of a server
        if http is None:
            asyncio.run(_serve_stdio(dataset, addr, local))
        else:
            asyncio.run(_serve_http(dataset, http, allow_host or [], issuer, url, addr, local))


async def _serve_stdio(dataset: str, addr: str | None, local: bool) -> None:
    from hansei.client.cli.embedded_stack import embedded_async_client
    from hansei.client.client import AsyncClient
    from hansei.mcp_server.server import create_server

    # Logs go to stderr: stdout belongs to MCP.
    async with embedded_async_client() if local else AsyncClient(addr) as client:
        await create_server(client, dataset).run_stdio_async()


async def _serve_http(
    dataset: str, address: str, allowed_hosts: list[str], issuer: str, url: str, addr: str | None, local: bool
) -> None:
    from hansei.client.callers import CallerClients
    from hansei.client.cli.embedded_stack import embedded_async_client
    from hansei.client.cli.output import say
    from hansei.client.client import AsyncClient
    from hansei.mcp_server.server import create_server
    from hansei.mcp_server.tokens import GatewayTokens, build_auth_settings
    from hansei.mcp_server.transports import TOKEN_OPTION, serve_http

    async with embedded_async_client() if local else AsyncClient(addr) as client:
        callers = CallerClients(client) if issuer else None
        if callers is not None:
            await callers.require_credentials(TOKEN_OPTION)
        tokens = None if callers is None else GatewayTokens(callers)
        await serve_http(
            lambda url: create_server(client, dataset, tokens, build_auth_settings(issuer, url) if issuer else None),
            address,
            allowed_hosts,
            lambda url: say(f"hansei's MCP server is up at {url}"),
            public_url=url,
            authenticates=tokens is not None,
        )
