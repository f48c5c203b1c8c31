"""The options that many commands share, the exit codes, and the connection to the server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hansei.client.data_directory import DATA_DIRECTORY_VARIABLE, find_data_directory

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.playbook.v1.playbook_service_pb2 import ListBulletsResponse

DATASET_VARIABLE = "HANSEI_DATASET"
CONNECT_SECONDS = 2.0
PEER_UNAVAILABLE = "PEER_UNAVAILABLE"
"""The reason of the error of a server that does not answer."""
STDIO = "-"
"""The name of stdin or stdout in place of a file."""


class Exit(IntEnum):
    """The exit code of a command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    PARTLY = 5
    MODEL_UNAVAILABLE = 6
    INTERRUPTED = 130


EXIT_CODES = {
    Exit.DONE: "done",
    Exit.FAILED: "failed, or a check found an error",
    Exit.USAGE: "wrong usage, or invalid input",
    Exit.UNREACHABLE: "the server is not reachable",
    Exit.NOT_FOUND: "the dataset, or another named object, does not exist",
    Exit.PARTLY: "partly done: stderr names the rest",
    Exit.MODEL_UNAVAILABLE: "the model is unavailable, or its reply cannot be used",
    Exit.INTERRUPTED: "interrupted",
}


def _refuse_address_with_local(context: typer.Context, value: Any) -> Any:
    """Return the value of --addr or --local. Ends the command if the command line has both; HANSEI_ADDR may be set."""
    sources = [context.get_parameter_source(name) for name in ("addr", "local")]
    if all(source is not None and source.name == "COMMANDLINE" for source in sources):
        fail("--addr and --local cannot be combined: --local calls no server", Exit.USAGE)
    return value


Address = Annotated[
    str | None,
    typer.Option(
        "--addr",
        envvar="HANSEI_ADDR",
        metavar="HOST:PORT",
        help="The address of the gateway. [default: 127.0.0.1:50050]",
        callback=_refuse_address_with_local,
    ),
]
Local = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Run every service in this process, on the data of --data-dir, and call no server.",
        callback=_refuse_address_with_local,
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A host name under which clients reach this server; repeatable."),
]


def _set_data_directory(directory: str | None) -> None:
    if directory:
        os.environ[DATA_DIRECTORY_VARIABLE] = directory


DataDirectory = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        envvar=DATA_DIRECTORY_VARIABLE,
        metavar="DIR",
        help="The directory with the data of `hansei up` and --local. [default: that of the platform]",
        callback=_set_data_directory,
    ),
]
UsePager = Annotated[
    bool, typer.Option("--pager/--no-pager", help="Show a result that is longer than the terminal in $PAGER.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, and nothing else, to stdout.")]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset", "-d", envvar=DATASET_VARIABLE, help="The dataset; required if the server has more than one."
    ),
]

Author = Annotated[
    str, typer.Option(help="The author of the change, for the history. [default: api]", show_default=False)
]
Reason = Annotated[str, typer.Option(help="The reason, for the history.", show_default=False)]


class CommandFailedError(Exception):
    """End a command with a message on stderr and an exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
    """End the command with a message on stderr."""
    raise CommandFailedError(message, code)


def refuse_empty_path(path: str | None, name: str) -> None:
    """End the command if the path of the argument or option `name` is empty, as that of an unset shell variable is."""
    if path == "":
        fail(f"{name} is empty: the path must name a file or a folder", Exit.USAGE)


@contextmanager
def connect(address: str | None, local: bool, *, reads: bool = False) -> Iterator[Client]:
    """Yield a client of the server at `address`, or of a stack in this process; it creates no data if `reads`."""
    if local:
        from hansei.client.cli.embedded_stack import embedded_client

        with embedded_client(reads=reads) as client:
            yield client
    else:
        from hansei.client.client import Client

        with Client(address) as client:
            yield client


@contextmanager
def connect_or_embed(address: str | None, local: bool, *, reads: bool = False) -> Iterator[Client]:
    """Yield the client of `connect`, or of a stack in this process if no server is named and none is running."""
    if not address and not local and not _is_server_running():
        from hansei.client.cli.output import say

        say(f"no server is running here: using the data in {find_data_directory()} directly")
        local = True
    with connect(address, local, reads=reads) as client:
        yield client


def _is_server_running() -> bool:
    """Return whether a process listens at the default address."""
    import socket

    from hansei.client import client

    host, _, port = client.DEFAULT_ADDRESS.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def require_dataset(client: Client, dataset: str) -> None:
    """Raise NotFound, with similar names, if the dataset does not exist: other services answer as if it were empty."""
    client.playbooks.get_dataset(dataset=dataset)


def require_bullet(client: Client, dataset: str, bullet_id: str) -> ListBulletsResponse:
    """Return a page with the bullet and the revision of the playbook. Ends the command if there is no such bullet."""
    page = client.playbooks.list_bullets(dataset=dataset, ids=[bullet_id])
    if not page.bullets:
        fail(f'dataset "{dataset}" has no bullet "{bullet_id}"; find ids with a search', Exit.NOT_FOUND)
    return page


def choose_dataset(client: Client, dataset: str | None, new: str = "") -> str:
    """Return `dataset`, else the only dataset of the server, else `new` if there is none."""
    if dataset:
        return dataset
    datasets = client.playbooks.list_datasets().datasets
    if len(datasets) == 1:
        return datasets[0].name
    if not datasets and new:
        return new
    if not datasets:
        fail("there is no playbook yet; create one with: hansei learn FILE", Exit.NOT_FOUND)
    names = ", ".join(f"{summary.name} ({summary.bullets})" for summary in datasets)
    fail(f"which dataset? Name one with --dataset: {names}", Exit.USAGE)
