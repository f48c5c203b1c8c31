"""`hansei a2a`."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Address, AllowedHosts, DataDirectory, Local

commands = CommandGroup()


@commands.command()
def a2a(
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Where to serve the card and JSON-RPC.")
    ] = "127.0.0.1:8766",
    grpc: Annotated[str, typer.Option("--grpc", metavar="HOST:PORT", help="Where to serve gRPC.")] = "127.0.0.1:8767",
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token",
            help="Require an API key of the gateway, or a token of its issuer; callers then have its scopes.",
        ),
    ] = False,
    allow_host: AllowedHosts = None,
    url: Annotated[
        str,
        typer.Option(metavar="URL", help="The URL that the card names; default: that of --http.", show_default=False),
    ] = "",
    grpc_url: Annotated[
        str,
        typer.Option(
            "--grpc-url",
            metavar="HOST:PORT",
            help="The gRPC address that the card names; default: that of --grpc.",
            show_default=False,
        ),
    ] = "",
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
) -> None:
    """Serve plans to other agents over A2A 1.0.

    A message creates a plan, and the task is its execution. If the plan asks a question, the task requires input.
    Other agents find the bindings in /.well-known/agent-card.json.
    """
    import asyncio

    with suppress(KeyboardInterrupt):  # ctrl-c is the normal end of a server
        asyncio.run(_serve(http, grpc, require_token, allow_host or [], url, grpc_url, addr, local))


async def _serve(
    http: str,
    grpc: str,
    require_token: bool,
    allowed_hosts: list[str],
    url: str,
    grpc_url: str,
    addr: str | None,
    local: bool,
) -> None:
    from hansei.client.callers import CallerClients
    from hansei.client.cli.embedded_stack import embedded_async_client
    from hansei.client.cli.options import fail
    from hansei.client.cli.output import say
    from hansei.client.client import AsyncClient

    try:
        from hansei.a2a_server.server import TOKEN_OPTION, serve
    except ModuleNotFoundError as error:
        fail(str(error))

    async with embedded_async_client() if local else AsyncClient(addr) as client:
        callers = CallerClients(client) if require_token else None
        if callers is not None:
            await callers.require_credentials(TOKEN_OPTION)
        await serve(
            client,
            http,
            grpc,
            lambda url, grpc_url: say(f"hansei's A2A agent is up at {url}, and for gRPC at {grpc_url}"),
            callers=callers,
            allowed_hosts=allowed_hosts,
            public_url=url,
            public_grpc_address=grpc_url,
        )
