"""The ends of log files: what happened, without the texts that exceptions carry."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chassis.errors import shorten
from hansei.client.cli.support.archive import LeftOut, Part
from hansei.client.cli.support.masking import Masking

TAIL_BYTES = 256 * 1024
MAX_CHARS = 300
"""Of a fact in a record, or of a line that is none: enough for any record of ours, not for a bullet or a prompt."""
_FRAME = re.compile(r'^\s*File "([^"]*)", line (\d+), in (\S+)', re.MULTILINE)
_CLASS = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)


def tails(files: Sequence[Path], masking: Masking) -> Iterator[Part | LeftOut]:
    """The last part of each file, line by line. Masked before anything is cut: half a secret is not recognised."""
    if not files:
        yield LeftOut("logs", "services write them to stderr; name the files they were led to with --log")
    for number, file in enumerate(files, 1):
        try:
            lines = _last_lines(file)
        except OSError as error:
            yield LeftOut(f"the log {file}", f"it cannot be read: {error.strerror}")
            continue
        text = "".join(f"{_kept(line, masking)}\n" for line in masking("\n".join(lines)).splitlines())
        yield Part(f"logs/{number}-{file.name}", f"the last {TAIL_BYTES // 1024} KiB of {file}, shortened", text)


def frames_of(error: BaseException) -> list[str]:
    """Where an exception comes from, the outermost place first."""
    return [f"{Path(each.filename).name}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)]


def _last_lines(file: Path) -> list[str]:
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - TAIL_BYTES))
        lines = stream.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    return lines if size <= TAIL_BYTES else lines[1:]


def _kept(line: str, masking: Masking) -> str:
    """A record of ours as one line of JSON, any other line shortened."""
    try:
        record = json.loads(line)
    except ValueError:
        return shorten(line, MAX_CHARS)
    if not isinstance(record, dict):
        return shorten(line, MAX_CHARS)
    return json.dumps({key: _fact(key, value) for key, value in masking(record).items()}, ensure_ascii=False)


def _fact(key: str, value: Any) -> Any:
    if key == "exception":
        return _places(str(value))
    return value if isinstance(value, int | float | None) else shorten(value, MAX_CHARS)


def _places(trace: str) -> list[str]:
    """The classes and places of a traceback. Its messages and lines of source may quote what a model or a run said."""
    found = [f"{Path(file).name}:{line} {name}" for file, line, name in _FRAME.findall(trace)]
    names = [each for each in _CLASS.findall(trace) if each != "Traceback"]
    return [*found, *names]
