"""Test reading trajectories from files: nothing is lost, and what cannot be read is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hansei.client import trajectory_files as module
from hansei.client.errors import InvalidArgument
from hansei.client.trajectories import TrajectoryRecord
from hansei.client.trajectory_files import UnreadablePart, read_trajectories
from hansei.reflector.v1.reflector_service_pb2 import ParsedTrajectory, ParseTrajectoriesResponse
from hansei.reflector.v1.trajectory_pb2 import Trajectory


class Parser:
    """Parse one trajectory a line, or an array, like the reflector; refuse a content with a line that has `bad`."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.reflector = self

    def parse_trajectories(self, content: bytes, dataset: str) -> ParseTrajectoriesResponse:
        self.parts.append(content)
        lines = [line for line in content.splitlines() if line.strip()]
        if not lines or any(b"bad" in line for line in lines):
            raise InvalidArgument("not a trajectory")
        values = [json.loads(line) for line in lines]
        parsed = values[0] if isinstance(values[0], list) else values
        return ParseTrajectoriesResponse(
            trajectories=[
                ParsedTrajectory(trajectory=Trajectory(id=document["id"], dataset=dataset), ground_truth="42")
                for document in parsed
            ]
        )


def ids_of(parser: Any, content: bytes) -> list[str]:
    return [
        found.trajectory.id
        for found in read_trajectories(parser, "f", content, "d")
        if isinstance(found, TrajectoryRecord)
    ]


def lines(ids: list[str]) -> bytes:
    return "\n".join(json.dumps({"id": id_}) for id_ in ids).encode()


@pytest.fixture
def part_bytes(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "PART_BYTES", 200)
    return 200


def test_half_of_a_surrogate_pair_in_a_long_array_is_replaced(part_bytes: int) -> None:
    elements = ", ".join(f'{{"id": "run-{number} \\ud83d"}}' for number in range(20))
    assert ids_of(Parser(), f"[{elements}]".encode()) == [f"run-{number} \ufffd" for number in range(20)]


def test_a_long_array_that_is_nested_too_deeply_is_named(part_bytes: int) -> None:
    parser: Any = Parser()
    (found,) = read_trajectories(parser, "f", 100_000 * b"[" + b"bad", "d")
    assert isinstance(found, UnreadablePart)


def test_a_long_file_is_sent_in_chunks_and_received_in_order(part_bytes: int) -> None:
    parser, ids = Parser(), [f"run-{number}" for number in range(100)]
    assert ids_of(parser, lines(ids)) == ids
    assert len(parser.parts) > 1
    assert all(len(part) <= part_bytes for part in parser.parts)


def test_a_long_document_that_is_no_list_of_lines_stays_whole(part_bytes: int) -> None:
    content = json.dumps({"id": "one", "text": "x" * 500}).encode()
    parser = Parser()
    assert ids_of(parser, content) == ["one"]
    assert parser.parts == [content]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_long_array_is_split_between_trajectories_and_never_within_one(part_bytes: int, indent: int | None) -> None:
    parser, ids = Parser(), [f"run-{number}" for number in range(50)]
    assert ids_of(parser, json.dumps([{"id": id_} for id_ in ids], indent=indent).encode()) == ids
    assert len(parser.parts) > 1
    parser = Parser()
    messages = json.dumps([{"id": "one", "role": "user", "content": "x" * 100}] * 5).encode()
    ids_of(parser, messages)
    assert parser.parts == [messages]


@pytest.fixture
def call_bytes(monkeypatch: pytest.MonkeyPatch) -> int:
    """Calls that take 20,000 bytes."""
    monkeypatch.setattr(module, "MAX_PART_BYTES", 20_000)
    monkeypatch.setattr(module, "SHORTENED_BYTES", 20_000)
    return 20_000


def test_a_trajectory_that_no_call_can_send_is_named(call_bytes: int) -> None:
    parser: Any = Parser()
    (part,) = read_trajectories(parser, "f", json.dumps({"id": ["x"] * 10_000}).encode(), "d")
    assert isinstance(part, module.UnreadablePart)
    assert "one document of 0.1 MB without texts that can be shortened" in part.error.message


def test_a_trajectory_without_long_texts_is_encoded_once(call_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[object] = []

    def count_and_encode(value: object, ensure_ascii: bool) -> str:
        values.append(value)
        return json.JSONEncoder(ensure_ascii=ensure_ascii).encode(value)

    content = json.dumps({"id": "large", "metadata": [0.5] * 10_000, "text": "x" * 600}).encode()
    monkeypatch.setattr(json, "dumps", count_and_encode)
    (part,) = read_trajectories(Parser(), "f", content, "d")  # type: ignore[arg-type]
    assert isinstance(part, UnreadablePart)
    assert len(values) == 1


def test_the_longest_texts_of_a_large_trajectory_are_shortened(call_bytes: int) -> None:
    parser: Any = Parser()
    steps = [{"text": f"begin {number} {'é' * 9_000} end {number}"} for number in range(10)]
    content = json.dumps({"id": "large", "steps": [*steps, {"text": "short"}]}).encode()
    (record,) = read_trajectories(parser, "f", content, "d")
    (sent,) = parser.parts
    assert len(sent) <= call_bytes
    texts = [step["text"] for step in json.loads(sent)["steps"]]
    assert texts[-1] == "short"
    assert all(f"begin {number} " in text and f" end {number}" in text for number, text in enumerate(texts[:-1]))
    assert "characters left out" in texts[0]
    assert isinstance(record, TrajectoryRecord)
    assert record.trajectory.id == "large"
    assert "10 of its texts were shortened to " in record.note


def test_a_large_transcript_of_lines_stays_lines(call_bytes: int) -> None:
    parser: Any = Parser()
    content = b"\n".join(b'{"id": "%d", "resourceSpans": ["%s"]}' % (number, b"y" * 9_000) for number in range(3))
    assert len(ids_of(parser, content)) == 3
    (sent,) = parser.parts
    assert len(sent) <= call_bytes


@pytest.mark.parametrize("bad", [0, 7, 99])
def test_a_bad_line_is_named_by_its_number_and_costs_no_other(part_bytes: int, bad: int) -> None:
    ids = [f"run-{number}" for number in range(100)]
    ids[bad] = "bad"
    found = list(read_trajectories(Parser(), "f", lines(ids), "d"))  # type: ignore[arg-type]
    assert [part.source for part in found if isinstance(part, UnreadablePart)] == [f"f:{bad + 1}"]
    assert [part.trajectory.id for part in found if isinstance(part, TrajectoryRecord)] == [
        id_ for id_ in ids if id_ != "bad"
    ]


def test_a_file_that_is_not_lines_is_refused_as_a_whole() -> None:
    (found,) = read_trajectories(Parser(), "f", b"bad\nthings", "d")  # type: ignore[arg-type]
    assert isinstance(found, UnreadablePart)
    assert found.source == "f"


def test_exported_spans_are_never_sent_apart(part_bytes: int) -> None:
    parser = Parser()
    content = b"\n".join(b'{"id": "%d", "resourceSpans": []}' % number for number in range(20))
    assert len(ids_of(parser, content)) == 20
    assert parser.parts == [content]
    (refused,) = read_trajectories(parser, "f", content + b"\nbad", "d")  # type: ignore[arg-type]
    assert isinstance(refused, UnreadablePart)
