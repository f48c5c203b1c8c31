"""Where results go: one JSON document or JSON lines on stdout, or text for people by rich. Never both."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from rich.console import Console


def print_json(document: Message | Mapping[str, Any], *, line: bool = False) -> None:
    """Write a message of the contract, or a mapping, as JSON; `line`: as one line of many."""
    value = document if isinstance(document, Mapping) else as_json(document)
    indent = None if line else 2
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=indent) + "\n")
    sys.stdout.flush()


def as_json(message: Message) -> dict[str, Any]:
    """A message as JSON values, under the names of the contract."""
    from google.protobuf.json_format import MessageToDict

    value: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return value


@cache
def console() -> Console:
    """The console results are shown on."""
    from rich.console import Console

    return Console(highlight=False)


@cache
def progress_console() -> Console:
    """The console progress and remarks are shown on: stderr, so that results can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def say(message: str) -> None:
    """A line on stderr."""
    sys.stderr.write(message + "\n")
