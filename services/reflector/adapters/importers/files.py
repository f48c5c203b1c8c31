"""Reads trajectory files: a JSON document or JSON lines; the content determines the format.

Only this module detects formats; `hansei learn`, bulk learning and the SDK send files here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NoReturn

from chassis.json_texts import parse_integer
from services.reflector.adapters.importers import (
    agents_sdk,
    anthropic,
    atif,
    claude_code,
    codex,
    cursor,
    hansei,
    langchain,
    langfuse,
    langsmith,
    mini_swe_agent,
    openai,
    openai_responses,
    otel,
    pydantic_ai,
    response_items,
    smolagents,
    state_bench,
    swe_agent,
    tau2_bench,
    tau_bench,
    who_and_when,
)
from services.reflector.adapters.importers.json_records import Record
from services.reflector.domain.dataset import check_dataset
from services.reflector.domain.errors import MalformedTrajectory, UnknownFormat
from services.reflector.domain.recorded_trajectory import Format, RecordedTrajectory, TrajectoryFile

MAX_FILE_BYTES = 64_000_000
MAX_TRAJECTORIES = 10_000


ReadTrajectories = Callable[[Iterable[Record], str], Iterator[RecordedTrajectory]]


@dataclass(frozen=True, slots=True)
class _Reader:
    check_format: Callable[[Record], None]
    read_trajectories: ReadTrajectories


def _read_each_record(read: Callable[[Record, str], RecordedTrajectory]) -> ReadTrajectories:
    """Return a reader for formats in which each record is one trajectory."""

    def read_records(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
        for record in records:
            try:
                yield read(record, dataset)
            except RecursionError as error:
                raise MalformedTrajectory(record.location, "", "is nested too deeply") from error

    return read_records


# The first matching format is used: a format that others resemble comes after them.
_READERS: Mapping[Format, _Reader] = {
    "otel": _Reader(otel.check_format, otel.read_trajectories),
    "atif": _Reader(atif.check_format, atif.read_trajectories),
    "claude_code": _Reader(claude_code.check_format, claude_code.read_trajectories),
    "codex": _Reader(codex.check_format, codex.read_trajectories),
    "cursor": _Reader(cursor.check_format, cursor.read_trajectories),
    "agents_sdk": _Reader(agents_sdk.check_format, agents_sdk.read_trajectories),
    "langsmith": _Reader(langsmith.check_format, langsmith.read_trajectories),
    "langfuse": _Reader(langfuse.check_format, langfuse.read_trajectories),
    "smolagents": _Reader(smolagents.check_format, smolagents.read_trajectories),
    "tau2_bench": _Reader(tau2_bench.check_format, tau2_bench.read_trajectories),
    "tau_bench": _Reader(tau_bench.check_format, _read_each_record(tau_bench.read)),
    "state_bench": _Reader(state_bench.check_format, _read_each_record(state_bench.read)),
    "swe_agent": _Reader(swe_agent.check_format, _read_each_record(swe_agent.read)),
    "pydantic_ai": _Reader(pydantic_ai.check_format, _read_each_record(pydantic_ai.read)),
    "openai_responses": _Reader(openai_responses.check_format, _read_each_record(openai_responses.read)),
    "langchain": _Reader(langchain.check_format, _read_each_record(langchain.read)),
    "anthropic": _Reader(anthropic.check_format, _read_each_record(anthropic.read)),
    "openai": _Reader(openai.check_format, _read_each_record(openai.read)),
    "who_and_when": _Reader(who_and_when.check_format, _read_each_record(who_and_when.read)),
    "hansei": _Reader(hansei.check_format, _read_each_record(hansei.read)),
}

FORMATS = tuple(_READERS)
"""The names of the formats, in the order in which they are tried."""


def read_trajectories(content: bytes, dataset: str, format: Format | None = None) -> TrajectoryFile:
    """Return the trajectories of a file. `dataset` is a default; the first record determines a missing `format`.

    A file is read as a whole or not at all. Raise MalformedTrajectory with line, field, value and rule,
    UnknownFormat with the reason for each format, or InvalidTrajectoryDataset.
    """
    check_dataset(dataset)
    records = split_records(content)
    first = next(records, None)
    if first is None:
        raise MalformedTrajectory("file", content[:80], "holds no trajectory")
    detected = format or _detect_format(first)
    recorded_trajectories: list[RecordedTrajectory] = []
    for recorded in _READERS[detected].read_trajectories(chain([first], records), dataset):
        if len(recorded_trajectories) == MAX_TRAJECTORIES:
            raise MalformedTrajectory(
                "file",
                recorded.trajectory.id or f"trajectory {MAX_TRAJECTORIES + 1}",
                f"is one too many: a file may have at most {MAX_TRAJECTORIES} trajectories",
            )
        recorded_trajectories.append(_add_id(recorded))
    if not recorded_trajectories:
        raise MalformedTrajectory("file", content[:80], f"holds no trajectory of the format {detected}")
    return TrajectoryFile(detected, tuple(recorded_trajectories))


def _add_id(recorded: RecordedTrajectory) -> RecordedTrajectory:
    if recorded.trajectory.id:
        return recorded
    return replace(recorded, trajectory=recorded.trajectory.model_copy(update={"id": recorded.trajectory.content_id}))


def _detect_format(record: Record) -> Format:
    if atif.has_name(record):  # Of any version: the error then names the version.
        return "atif"
    if mini_swe_agent.has_name(record):
        return "swe_agent"
    reasons: dict[str, str] = {}
    for name, reader in _READERS.items():
        try:
            reader.check_format(record)
        except MalformedTrajectory as error:
            reasons[name] = error.message
        else:
            return name
    raise UnknownFormat(record.location, list(record.value), reasons)


def _decode(content: bytes) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise MalformedTrajectory(
            "file", f"{len(content)} bytes", f"is too large, at most {MAX_FILE_BYTES} bytes are read"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedTrajectory("file", content, f"is not UTF-8 at byte {error.start}") from error


def split_records(content: bytes) -> Iterator[Record]:
    """Yield the records of a file: of each line if the first line is a JSON document, else of the whole file.

    A list of messages without an enclosing object is one conversation.
    """
    text = _decode(content)
    first, _, rest = text.lstrip().partition("\n")
    if not rest.strip() or not _is_document(first):
        document = _parse_json(text, "file")
        if not isinstance(document, list) or _is_conversation(document):
            yield _parse_record(document, "trajectory")
        else:
            yield from (_parse_record(item, f"trajectories[{index}]") for index, item in enumerate(document))
        return
    for number, line in enumerate(text.split("\n"), 1):  # other separators of lines may stand inside of a text
        if line.strip():
            yield _parse_record(_parse_json(line, f"line {number}"), f"line {number}")


def _parse_record(document: object, location: str) -> Record:
    """Return the record of a document; a list is a conversation, of items if one is no message."""
    if not isinstance(document, list):
        return Record(document, location)
    return Record({"items" if any(map(response_items.is_item, document)) else "messages": document}, location)


def _is_conversation(document: list[object]) -> bool:
    """Return whether a list is one conversation, and not a list of trajectories."""
    return bool(document) and all(
        isinstance(item, dict)
        and "messages" not in item
        and (
            "role" in item or langchain.is_message(item) or pydantic_ai.is_message(item) or response_items.is_item(item)
        )
        for item in document
    )


def _is_document(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def _parse_json(text: str, location: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=parse_integer)
    except RecursionError as error:
        raise MalformedTrajectory(location, text[:80], "is nested too deeply") from error
    except ValueError as error:
        raise MalformedTrajectory(location, text.strip()[:80], f"is not JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
