"""Write results to stdout, as JSON or as text; write remarks to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hansei.client.cli.control_characters import remove_control_characters

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from rich.console import Console, RenderableType

PIPE_WIDTH = 1000
"""The width of the output to a file or a pipe: the lines of tables are not shortened there."""


def print_json(document: Message | Mapping[str, Any], *, line: bool = False) -> None:
    """Write a message of the contract, or a mapping with messages in it, as JSON, on one line if `line`."""
    text = json.dumps(document, default=encode_message, ensure_ascii=False, indent=None if line else 2)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def encode_message(message: Message) -> dict[str, Any]:
    """Return a message as JSON values, with the field names of the contract."""
    from google.protobuf.json_format import MessageToDict

    value: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return value


def create_console(stderr: bool = False) -> Console:
    """Create the console for results, or for progress and remarks (stderr), so that results can be piped."""
    from hansei.client.cli.safe_console import SafeConsole

    console = SafeConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = PIPE_WIDTH
    return console


def print_pages(rendered: RenderableType) -> None:
    """Print a result; one that is longer than the terminal is shown in the pager that PAGER names, or else in less."""
    console = create_console()
    with console.capture() as captured:
        console.print(rendered, crop=False)
    text = captured.get()
    if not console.is_terminal or not sys.stdin.isatty() or text.count("\n") < console.height:
        sys.stdout.write(text)
        return
    import pydoc  # it loads slowly, and few results are long

    os.environ.setdefault("LESS", "FRX")  # keep colours; end at once if the text fits one screen
    pydoc.pager(text)


def print_line(text: str) -> None:
    """Write a line to stdout, without control characters."""
    sys.stdout.write(remove_control_characters(text) + "\n")
    sys.stdout.flush()


def say(message: str) -> None:
    """Write a line to stderr, without control characters."""
    sys.stderr.write(remove_control_characters(message) + "\n")
