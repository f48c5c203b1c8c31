"""`hansei playbook export|import`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.options import (
    STDIO,
    Address,
    Author,
    DataDirectory,
    Dataset,
    Local,
    Reason,
    choose_dataset,
    connect_or_embed,
)
from hansei.client.cli.sources import read_source

if TYPE_CHECKING:
    from hansei.client.client import Client


class FileFormat(StrEnum):
    """The format of a playbook file; its values are those of the contract's PlaybookFormat."""

    JSON = "json"
    TEXT = "text"
    COUNTED = "counted"


def export_playbook(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - for stdout.")] = STDIO,
    dataset: Dataset = None,
    file_format: Annotated[
        FileFormat, typer.Option("--format", "-f", help="counted: lines of text with the counters helpful and harmful.")
    ] = FileFormat.JSON,
    revision: Annotated[int, typer.Option("--revision", "-r", min=0, help="Export this revision; 0: the newest.")] = 0,
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
) -> None:
    """Write a playbook to a file.

    Without --addr and without a running server, the command reads the data that a server would use here.
    """
    with connect_or_embed(addr, local, reads=True) as client:
        from hansei.playbook.v1 import playbook_service_pb2 as playbook

        formats = {
            FileFormat.JSON: playbook.PLAYBOOK_FORMAT_JSON,
            FileFormat.TEXT: playbook.PLAYBOOK_FORMAT_TEXT_PLAIN,
            FileFormat.COUNTED: playbook.PLAYBOOK_FORMAT_TEXT_COUNTED,
        }
        name = choose_dataset(client, dataset)
        content = client.export_playbook(name, format=formats[file_format], revision=revision)
    if file == STDIO:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        Path(file).write_bytes(content)


def import_playbook(
    client: Client,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A playbook as JSON or text, - for stdin; the format is detected.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="The dataset that gets the bullets.")],
    replace: Annotated[bool, typer.Option("--replace", help="Remove the bullets that are not in the file.")] = False,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Read a playbook from a file.

    Without --addr and without a running server, the command writes to the data that a server would use here.
    """
    response = client.import_playbook(dataset, read_source(file), replace=replace, author=author, reason=reason)
    return response, dataset
