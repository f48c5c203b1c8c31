"""Read the files that a command names."""

from __future__ import annotations

import sys
from pathlib import Path

from hansei.client.cli.options import STDIO, Exit, fail


def read_source(file: str) -> bytes:
    """Return the content of a file, or of stdin for `-`. Ends the command if the file does not exist."""
    if file == STDIO:
        return sys.stdin.buffer.read()
    if not Path(file).is_file():
        fail(f"{file} does not exist", Exit.USAGE)
    return Path(file).read_bytes()


def read_source_text(file: str) -> str:
    """Return the text of a file, or of stdin for `-`. Ends the command if it is not UTF-8."""
    try:
        return read_source(file).decode("utf-8")
    except UnicodeDecodeError as error:
        fail(f"{file} is not UTF-8: {error.reason} at byte {error.start}", Exit.USAGE)
