"""Read trajectories from files of any format that the reflector knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chassis.json_texts import repair_surrogates
from hansei.client.errors import InvalidArgument
from hansei.client.large_documents import shorten_texts
from hansei.client.trajectories import TrajectoryRecord
from hansei.reflector.v1.reflector_service_pb2 import TRAJECTORY_FORMAT_CURSOR

if TYPE_CHECKING:
    from hansei.client.client import Client

PART_BYTES = 4 * 1024 * 1024
"""The size of the parts of a long file. The response is about as long as the part, and a message may have 16 MiB."""

MAX_PART_BYTES = 16 * 1024 * 1024 - 64 * 1024
"""The size of the largest part that can be sent; the rest of the message is room for its other fields."""

SHORTENED_BYTES = 6 * 1024 * 1024
"""The size of a document whose texts were shortened: with its siblings, the trajectory must fit into one message."""

_MESSAGE_KEYS = {"role", "type", "parts"}
"""Keys of the messages of one trajectory; an array with them is not an array of trajectories."""
_PART_KEYS = {"resourceSpans", "resourceLogs", "sessionId", "leafUuid", "snapshot", "payload"}
_PART_KEYS |= {"span_data", "workflow_name", "trace_id", "traceId", "step_number", "system_prompt"}
"""Keys of objects that are parts of one trajectory: lines of transcripts, spans and events of traces, steps."""


@dataclass(frozen=True, slots=True)
class UnreadablePart:
    """A part of a file that is not a trajectory: its place, and the error of the reflector."""

    source: str
    error: InvalidArgument


@dataclass(frozen=True, slots=True)
class _FilePart:
    source: str
    content: bytes
    lines: range
    parsed_before: int = 0
    is_whole: bool = True


def read_trajectories(
    client: Client, source: str, content: bytes, dataset: str
) -> Iterator[TrajectoryRecord | UnreadablePart]:
    """Yield the trajectories of a file. A line that cannot be read becomes an `UnreadablePart`; the others are read.

    `dataset` is for trajectories that name none.
    """
    for part in _split_file(source, content):
        yield from _parse(client, part, dataset)


def _split_file(source: str, content: bytes) -> Iterator[_FilePart]:
    """Yield a file as a whole or, if it is long, groups of its lines or of the elements of its array."""
    lines = content.splitlines(keepends=True)
    if len(content) > PART_BYTES and (elements := _list_independent_elements(content)):
        for start, group in _group_by_size(elements):
            # Their trajectories are numbered as in the whole array.
            yield _FilePart(source, b"[" + b",".join(group) + b"]", range(1, 2), start, is_whole=False)
    elif len(content) > PART_BYTES and _has_independent_lines(content):
        for start, group in _group_by_size(lines):
            yield _FilePart(source, b"".join(group), range(start + 1, start + len(group) + 1))
    else:
        yield _FilePart(source, content, range(1, len(lines) + 1))


def _group_by_size(items: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Yield the items in groups of at most PART_BYTES, each with the index of its first; a longer item is alone."""
    start, size = 0, 0
    for number, item in enumerate(items):
        if size and size + len(item) > PART_BYTES:
            yield start, items[start:number]
            start, size = number, 0
        size += len(item)
    yield start, items[start:]


def _list_independent_elements(content: bytes) -> list[bytes]:
    """Return the elements of a JSON array of trajectories; none of the messages of one trajectory, or of other JSON."""
    if not content.lstrip().startswith(b"["):
        return []
    try:
        array = json.loads(content)
    except (ValueError, RecursionError):
        return []
    if not all(isinstance(element, dict | list) for element in array):
        return []
    if any(isinstance(element, dict) and (_MESSAGE_KEYS & element.keys() or _is_part(element)) for element in array):
        return []
    return [repair_surrogates(json.dumps(element, ensure_ascii=False)).encode() for element in array]


def _parse(client: Client, part: _FilePart, dataset: str) -> Iterator[TrajectoryRecord | UnreadablePart]:
    note = ""
    if len(part.content) > MAX_PART_BYTES:
        size, most = (f"{count / 1e6:.1f} MB" for count in (len(part.content), MAX_PART_BYTES))
        shortened = shorten_texts(part.content, SHORTENED_BYTES)
        if shortened is None:
            problem = (
                f"one document of {size} without texts that can be shortened; a call takes at most {most}. If it holds "
                "several trajectories, write each on a line of its own (JSON lines)"
            )
            yield UnreadablePart(part.source, InvalidArgument(problem, reason="TRAJECTORY_TOO_LARGE"))
            return
        note = (
            f"a call takes at most {most} and the document has {size}: {shortened.texts} of its texts were shortened "
            f"to {shortened.limit:,} characters each"
        )
        part = replace(part, content=shortened.content)
    try:
        response = client.reflector.parse_trajectories(content=part.content, dataset=dataset)
    except InvalidArgument as error:
        if not _has_independent_lines(part.content):
            yield UnreadablePart(part.source, error)
            return
        for number, line in zip(part.lines, part.content.splitlines(), strict=True):
            if line.strip():
                yield from _parse(client, _FilePart(f"{part.source}:{number}", line, range(1, 2)), dataset)
        return
    is_single = part.is_whole and len(response.trajectories) == 1
    for number, parsed in enumerate(response.trajectories, start=part.parsed_before + 1):
        source = part.source if is_single else f"{part.source}#{number}"
        if response.format == TRAJECTORY_FORMAT_CURSOR and is_single:
            parsed.trajectory.id = Path(part.source).stem  # The transcript itself does not name its session.
        yield TrajectoryRecord(source, parsed.trajectory, parsed.ground_truth, parsed.test_report, note=note)


def _has_independent_lines(content: bytes) -> bool:
    """Return whether each line is a trajectory, and not a part of one."""
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines or _is_part(_parse_object(lines[0])):
        return False
    return len(lines) > 1 and sum(line.lstrip().startswith((b"{", b"[")) for line in lines) > len(lines) // 2


def _parse_object(line: bytes) -> dict[str, object]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _is_part(element: Mapping[str, object]) -> bool:
    """Return whether an object is a part of a trajectory, and not one itself."""
    is_line_of_cursor = "role" in element and isinstance(element.get("message"), dict)
    is_task_of_smolagents = "task_images" in element
    return bool(_PART_KEYS & element.keys()) or is_line_of_cursor or is_task_of_smolagents
