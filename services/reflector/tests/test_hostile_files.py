"""Each format against files that are cut off, have wrong values, or are nested too deeply (issue 24, item 1)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services.reflector.adapters.importers import otel
from services.reflector.adapters.importers.files import FORMATS, MAX_FILE_BYTES, read_trajectories
from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.otlp import Span
from services.reflector.domain.errors import MalformedTrajectory, UnknownFormat

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = {file.stem: file for file in sorted((EXAMPLES / "formats").iterdir())} | {
    "hansei": EXAMPLES / "trajectories/git-push-rebased.json",
    "swe_agent of mini-swe-agent": Path(__file__).parent / "files/mini_swe_agent.json",
}
"""The files by the name of the format; a second shape of a format has more words in its name."""
WRONG_VALUES: tuple[Any, ...] = (5, -1e300, "x", "", True, None, [], [5], {}, {"x": 5}, [[]])
MAX_DEPTH = 8
PLACES = ("line ", "trajectory", "trajectories[", "file", "trace ", "session ")
"""The beginnings of the places that errors name."""


def load(file: Path) -> list[Any]:
    """Return the documents of a file: its lines, or one."""
    text = file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]


def list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value; of a list, those of its first two elements."""
    if path:
        yield path
    if len(path) < MAX_DEPTH:
        pairs = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
        for name, inner in pairs:
            yield from list_places(inner, (*path, name))


def replace_value(documents: list[Any], path: tuple[Any, ...], value: Any) -> bytes:
    changed = copy.deepcopy(documents)
    target: Any = changed
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    return "\n".join(map(json.dumps, changed)).encode()


def test_each_format_has_an_example() -> None:
    assert {name.partition(" ")[0] for name in FILES} == set(FORMATS)


@pytest.mark.parametrize("name", FILES)
def test_an_example_is_read_in_its_format(name: str) -> None:
    assert read_trajectories(FILES[name].read_bytes(), "d").format == name.partition(" ")[0]


@pytest.mark.parametrize("name", FILES)
def test_a_value_of_a_wrong_type_is_read_or_refused_with_its_place(name: str) -> None:
    documents = load(FILES[name])
    messages = []
    for path in list_places(documents):
        for value in WRONG_VALUES:
            try:
                read_trajectories(replace_value(documents, path, value), "d")
            except (MalformedTrajectory, UnknownFormat) as error:
                messages.append(error.message)
    assert messages
    assert [message for message in messages if not message.startswith(PLACES)] == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_off_is_refused_with_its_place(name: str) -> None:
    content = FILES[name].read_bytes().rstrip()
    for size in {len(content) - 1, len(content) - 20, len(content) * 2 // 3}:
        part = content[:size]
        if FILES[name].suffix == ".jsonl" and part.endswith(b"}"):
            continue
        with pytest.raises((MalformedTrajectory, UnknownFormat)) as caught:
            read_trajectories(part, "d")
        assert "is not JSON" in caught.value.message
        assert caught.value.message.startswith(("line ", "file"))


@pytest.mark.parametrize("name", FILES)
def test_a_value_that_is_nested_too_deeply_is_refused(name: str) -> None:
    documents = load(FILES[name])
    deep = "[" * 100_000 + "]" * 100_000
    marked = replace_value(documents, next(list_places(documents[0], (0,))), "deep").decode()
    with pytest.raises((MalformedTrajectory, UnknownFormat)) as caught:
        read_trajectories(marked.replace('"deep"', deep, 1).encode(), "d")
    assert "is nested too deeply" in caught.value.message


def test_a_file_of_100_megabytes_is_refused_before_it_is_parsed() -> None:
    line = FILES["codex"].read_bytes().splitlines()[0] + b"\n"
    content = line * (100_000_000 // len(line))
    with pytest.raises(MalformedTrajectory, match=rf"is too large, at most {MAX_FILE_BYTES} bytes are read"):
        read_trajectories(content, "d")


PARENTS = {
    "agents_sdk": ("id", "parent_id"),
    "claude_code": ("uuid", "parentUuid"),
    "langfuse": ("id", "parentObservationId"),
    "langsmith": ("id", "parent_run_id"),
    "otel": ("spanId", "parentSpanId"),
}
"""The formats whose records name their parents, with the fields of the id and of the parent."""


def find_records(value: Any, field: str) -> Iterator[dict[str, Any]]:
    """Yield the objects that have a field."""
    if isinstance(value, dict):
        if field in value:
            yield value
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from find_records(inner, field)


@pytest.mark.parametrize("is_own_parent", [False, True])
@pytest.mark.parametrize("name", PARENTS)
def test_parents_that_form_a_circle_are_read_or_refused_with_their_place(name: str, is_own_parent: bool) -> None:
    id_field, parent_field = PARENTS[name]
    documents = load(FILES[name])
    records = [record for record in find_records(documents, id_field) if record[id_field]]
    assert len(records) > 2
    for number, record in enumerate(records):
        record[parent_field] = record[id_field] if is_own_parent else records[number - 1][id_field]
    read, refused = 0, ""
    try:
        found = read_trajectories("\n".join(map(json.dumps, documents)).encode(), "d")
        read = sum(len(recorded.trajectory.steps) for recorded in found.trajectories)
    except (MalformedTrajectory, UnknownFormat) as error:
        refused = error.message
    assert read or refused.startswith(PLACES)


def build_claude_code(number: int) -> list[dict[str, object]]:
    line = {"sessionId": "s", "isSidechain": True, "agentId": f"agent-{number}"}
    return [
        {**line, "type": "user", "uuid": f"u-{number}", "message": {"role": "user", "content": "q"}},
        {
            **line,
            "type": "assistant",
            "uuid": f"a-{number}",
            "parentUuid": f"u-{number}",
            "message": {"role": "assistant", "content": "a"},
        },
    ]


def build_langfuse(number: int) -> list[dict[str, object]]:
    trace = {"traceId": f"trace-{number}"}
    return [
        {**trace, "type": "GENERATION", "id": f"o-{number}", "startTime": "2026-01-01", "input": "q", "output": "a"},
        {**trace, "dataType": "NUMERIC", "name": "score", "value": 1},
    ]


def build_langsmith(number: int) -> list[dict[str, object]]:
    run = {"run_type": "llm", "id": f"run-{number}", "trace_id": f"trace-{number}", "dotted_order": "1"}
    return [
        {**run, "start_time": "2026-01-01", "inputs": {"prompt": "q"}, "outputs": {"output": "a"}},
        {"key": "correct", "run_id": f"run-{number}", "score": 1},
    ]


@pytest.mark.parametrize("build", [build_claude_code, build_langfuse, build_langsmith])
def test_the_fields_read_grow_with_the_trajectories_of_a_file(
    build: Callable[[int], list[dict[str, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    get_text = Record.get_text

    def count_and_get_text(record: Record, name: str, default: str = "") -> str:
        nonlocal reads
        reads += 1
        return get_text(record, name, default)

    monkeypatch.setattr(Record, "get_text", count_and_get_text)
    counts = []
    for count in (50, 100):
        reads = 0
        lines = [json.dumps(line) for number in range(count) for line in build(number)]
        assert len(read_trajectories("\n".join(lines).encode(), "d").trajectories) == count
        counts.append(reads)
    assert counts[1] <= 2 * counts[0]


class ComparedId(str):
    """An id that counts how often it is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        ComparedId.comparisons += 1
        return str.__eq__(self, other)


def test_calls_are_matched_with_their_spans_without_comparing_all_of_them() -> None:
    calls = [f"call-{number}" for number in range(100)]
    parts = [{"type": "tool_call", "id": call_id, "name": "get", "arguments": "{}"} for call_id in calls]
    messages = [{"role": "user", "parts": [{"type": "text", "content": "q"}]}, {"role": "assistant", "parts": parts}]
    model = build_span("model", {"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages})
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get"}
    spans = [build_span(f"span of {name}", {**tool, "gen_ai.tool.call.id": ComparedId(name)}) for name in calls]
    recorded = otel.read_trace("t", [model, *spans], "d")
    assert len(recorded.trajectory.steps) == 2 + len(calls)
    assert ComparedId.comparisons < 10 * len(calls)


def build_span(span_id: str, attributes: dict[str, object]) -> Span:
    return Span("span", "t", span_id, "", 0, attributes, None)
