"""Collect the ends of log files, without the texts of exceptions."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chassis.errors import shorten
from hansei.client.cli.support.archive import BundlePart, OmittedPart
from hansei.client.masking import SecretMask

TAIL_BYTES = 256 * 1024
MAX_CHARS = 300
"""The length of a value in a log record, or of another line: enough for our records, not for a bullet or prompt."""
_FRAME = re.compile(r'^\s*File "([^"]*)", line (\d+), in (\S+)', re.MULTILINE)
_CLASS = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)


def collect_logs(files: Sequence[Path], mask: SecretMask) -> Iterator[BundlePart | OmittedPart]:
    """Yield the end of each file. It is masked before it is cut: half a secret would not be recognised."""
    if not files:
        yield OmittedPart("logs", "services write them to stderr; name the files that have them with --log")
    for number, file in enumerate(files, 1):
        try:
            lines = _read_last_lines(file)
        except OSError as error:
            yield OmittedPart(f"the log {file}", f"cannot be read: {error.strerror}")
            continue
        text = "".join(f"{_shorten_line(line, mask)}\n" for line in mask("\n".join(lines)).split("\n"))
        description = f"the last {TAIL_BYTES // 1024} KiB of {file}, shortened"
        yield BundlePart(f"logs/{number}-{file.name}", description, text)


def list_frames(error: BaseException) -> list[str]:
    """Return the files and lines of an exception's traceback, the outermost first."""
    return [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]


def _read_last_lines(file: Path) -> list[str]:
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - TAIL_BYTES))
        text = stream.read(TAIL_BYTES).decode("utf-8", "replace")
    # str.splitlines would also split at U+2028 and others, which a text in a record may contain.
    lines = text.removesuffix("\n").split("\n")
    return lines if size <= TAIL_BYTES else lines[1:]


def _shorten_line(line: str, mask: SecretMask) -> str:
    """Return a log record with short values, and another line shortened."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return shorten(line, MAX_CHARS)
    return json.dumps({key: _shorten_value(key, value) for key, value in mask(record).items()}, ensure_ascii=False)


def _shorten_value(key: str, value: Any) -> Any:
    if key == "exception":
        # Messages and lines of source in a traceback may quote a model or a trajectory: only names remain.
        trace = str(value)
        frames = [f"{Path(file).name}:{line} {name}" for file, line, name in _FRAME.findall(trace)]
        return frames + [name for name in _CLASS.findall(trace) if name != "Traceback"]
    return value if isinstance(value, int | float | None) else shorten(value, MAX_CHARS)
