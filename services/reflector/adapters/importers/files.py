"""Reads a file of trajectories in any format it knows: a JSON document or JSON lines, told by the content."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from services.reflector.adapters.importers import hansei, openai, tau_bench, who_and_when
from services.reflector.adapters.importers.records import Record
from services.reflector.domain.dataset import check_dataset
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_run import Format, RecordedRun, TrajectoryFile

MAX_FILE_BYTES = 64_000_000
MAX_TRAJECTORIES = 10_000


@dataclass(frozen=True, slots=True)
class _Reader:
    matches: Callable[[Record], bool]
    read: Callable[[Record, str], RecordedRun]


_READERS: Mapping[Format, _Reader] = {
    "tau_bench": _Reader(tau_bench.matches, tau_bench.read),
    "who_and_when": _Reader(who_and_when.matches, who_and_when.read),
    "openai": _Reader(openai.matches, openai.read),
    "hansei": _Reader(hansei.matches, hansei.read),
}


def read_trajectories(content: bytes, dataset: str, format: Format | None = None) -> TrajectoryFile:
    """The runs of a file; `dataset` is for runs that name none, a `format` of None is told by the first record.

    A file is read as a whole or not at all. Raises MalformedTrajectory naming line, field, value and rule, and
    InvalidDatasetName.
    """
    check_dataset(dataset)
    chosen = format
    runs: list[RecordedRun] = []
    for record in records_of(content):
        chosen = chosen or _format_of(record)
        if len(runs) == MAX_TRAJECTORIES:
            raise MalformedTrajectory(
                record.where, "", f"is one trajectory too many, at most {MAX_TRAJECTORIES} fit a file"
            )
        runs.append(_identified(_read(record, _READERS[chosen], dataset)))
    if chosen is None or not runs:
        raise MalformedTrajectory("file", content[:80], "holds no trajectory")
    return TrajectoryFile(chosen, tuple(runs))


def _read(record: Record, reader: _Reader, dataset: str) -> RecordedRun:
    try:
        return reader.read(record, dataset)
    except RecursionError as error:
        raise MalformedTrajectory(record.where, "", "is nested too deeply") from error


def _identified(run: RecordedRun) -> RecordedRun:
    if run.trajectory.id:
        return run
    return replace(run, trajectory=run.trajectory.model_copy(update={"id": run.trajectory.content_id}))


def _format_of(record: Record) -> Format:
    for name, reader in _READERS.items():
        if reader.matches(record):
            return name
    known = "`traj` (tau-bench), `history` (Who&When), `messages` (OpenAI), `steps` or `reasoning_steps` (our own)"
    raise MalformedTrajectory(record.where, ", ".join(record.value), f"has none of the lists {known}")


def _decoded(content: bytes) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise MalformedTrajectory(
            "file", f"{len(content)} bytes", f"is too large, at most {MAX_FILE_BYTES} bytes are read"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedTrajectory(
            "file", content[error.start : error.start + 8], f"is not UTF-8 at byte {error.start}"
        ) from error


def records_of(content: bytes) -> Iterator[Record]:
    """The records of a file: of its lines where its first line is an object of its own, else of the whole document."""
    text = _decoded(content)
    first, _, rest = text.lstrip().partition("\n")
    if rest.strip() and _is_object(first):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield Record(_parsed(line, f"line {number}"), f"line {number}")
        return
    document = _parsed(text, "file")
    if not isinstance(document, list):
        yield Record(document, "trajectory")
    elif document and all(isinstance(item, dict) and "role" in item and "messages" not in item for item in document):
        yield Record({"messages": document}, "trajectory")
    else:
        yield from (Record(item, f"trajectories[{place}]") for place, item in enumerate(document))


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _parsed(text: str, where: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise MalformedTrajectory(where, text[:80], "is nested too deeply") from error
    except ValueError as error:
        raise MalformedTrajectory(where, text.strip()[:80], f"is not JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
