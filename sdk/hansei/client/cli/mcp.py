"""`hansei mcp`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.options import DATASET_VARIABLE, Address, Local

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hansei.client.client import AsyncClient


def mcp(
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", envvar=DATASET_VARIABLE, help="The playbook of calls that name none.")
    ] = "",
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve streamable HTTP there instead of stdin and stdout."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="A host it is reached by; repeatable.")
    ] = None,
    addr: Address = None,
    local: Local = False,
) -> None:
    """Serve the playbook to MCP clients.

    Tools to search it, read it, learn from a run and vote. The line for a client's settings is
    {"command": "hansei", "args": ["mcp", "--local"]}; without --local it asks a running hansei.
    """
    import asyncio

    with suppress(KeyboardInterrupt):  # ctrl-c is how a server ends
        asyncio.run(_serve(dataset, http, allow_host or [], addr, local))


async def _serve(dataset: str, http: str | None, allowed: list[str], addr: str | None, local: bool) -> None:
    from hansei.client.cli.output import say
    from hansei.mcp_server.server import server
    from hansei.mcp_server.serving import over_http, over_stdio

    async with _client(addr, local) as client:
        made = server(client, dataset)
        if http is None:
            await over_stdio(made)
        else:
            await over_http(made, http, allowed, lambda url: say(f"hansei's MCP server is up at {url}"))


def _client(addr: str | None, local: bool) -> AbstractAsyncContextManager[AsyncClient]:
    """A client of the server at `addr`, or of a stack in this process. Logs go to stderr: stdout belongs to MCP."""
    from hansei.client.cli.embedded import embedded_async_client
    from hansei.client.client import AsyncClient

    return embedded_async_client() if local else AsyncClient(addr)
