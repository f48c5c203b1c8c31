"""Read the files that a command names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hansei.client.cli.options import STDIO, Exit, fail, refuse_empty_path

COMPRESSED = ".zst"
"""The suffix of files that Zstandard compressed, such as old sessions of Codex."""
MAX_DECOMPRESSED_BYTES = 64_000_000
"""The size of the largest file that is read; a compressed one may be far larger than it looks."""
_COMPRESSED_PART = 1024
"""Bytes that are decompressed at once; a block of 4 bytes may hold 128 kB."""


class UnreadableSource(Exception):
    """A compressed file cannot be decompressed."""


def read_source(file: str) -> bytes:
    """Return the content of a file, decompressed, or of stdin for `-`. Ends the command if it cannot be read."""
    try:
        return read_content(file)
    except UnreadableSource as error:
        fail(f"{file} {error}", Exit.USAGE)


def read_content(file: str) -> bytes:
    """Return the content of a file, decompressed, or of stdin for `-`. Ends the command if the file does not exist.

    Raises UnreadableSource.
    """
    if file == STDIO:
        return sys.stdin.buffer.read()
    refuse_empty_path(file, "FILE")
    if not Path(file).is_file():
        problem = "is a directory; name a file" if Path(file).is_dir() else "does not exist"
        fail(f"{file} {problem}", Exit.USAGE)
    if file.endswith(COMPRESSED):
        return _decompress(Path(file))
    return Path(file).read_bytes()


def _decompress(path: Path) -> bytes:
    import zstandard  # few commands read compressed files

    content = bytearray()
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        with path.open("rb") as file:
            while part := file.read(_COMPRESSED_PART):
                while part:
                    frame = zstandard.ZstdDecompressor().decompressobj() if frame.eof else frame
                    content += frame.decompress(part)
                    part = frame.unused_data if frame.eof else b""
                if len(content) > MAX_DECOMPRESSED_BYTES:
                    raise UnreadableSource(f"is too large, at most {MAX_DECOMPRESSED_BYTES} bytes are decompressed")
    except zstandard.ZstdError as error:
        raise UnreadableSource(f"is not compressed by Zstandard: {error}") from error
    if not frame.eof:
        raise UnreadableSource("is cut off: its last frame does not end")
    return bytes(content)


def read_source_text(file: str) -> str:
    """Return the text of a file, or of stdin for `-`. Ends the command if it is not UTF-8."""
    try:
        return read_source(file).decode("utf-8")
    except UnicodeDecodeError as error:
        fail(f"{file} is not UTF-8: {error.reason} at byte {error.start}", Exit.USAGE)


def read_dashboard(file: str) -> str:
    """Return the text of a dashboard, an object with `trays`. Ends the command if the file contains none."""
    text = read_source_text(file)
    try:
        dashboard = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{file} is not JSON: {error}", Exit.USAGE)
    if not isinstance(dashboard, dict) or not isinstance(dashboard.get("trays"), dict):
        fail(f"{file} is not a dashboard: an object with `trays`, an object of lists of nodes with an `id`", Exit.USAGE)
    return text
