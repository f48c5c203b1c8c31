"""Reads transcripts of Cursor, `~/.cursor/projects/<project>/agent-transcripts/<id>.jsonl`: a message a line.

The format is not documented; version 3 writes `role`, and `message.content` with texts and calls. Cursor writes no
results of tools, so failures are known only from the texts of messages. The outcome is the agent's own word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from services.reflector.adapters.importers import anthropic
from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.recorded_tests import find_last_test_run
from services.reflector.adapters.importers.step_collector import StepCollector, build_recorded_trajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

_ROLES = ("user", "assistant")
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no line of such a transcript."""
    if record.value.get("role") not in _ROLES:
        raise record.build_error("role", f"must be one of {', '.join(_ROLES)}")
    message = record.value.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        raise record.build_error("message", "must have a list `content`")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of a transcript. Raise MalformedTrajectory with the line."""
    collector = StepCollector("transcript")
    first: Record | None = None
    for record in records:
        if not record.has("role"):  # An event, such as the end of a turn.
            continue
        check_format(record)
        first = first or record
        message = record.get_child("message") or record
        blocks = [_unwrap_query(block) for block in message.list_records("content")]
        content = {**message.value, "role": record.get_text("role"), "content": blocks}
        anthropic.add_message(collector, Record(content, message.location))
    if first is None or not any(step.role == "assistant" for step in collector.steps):
        return
    tests = find_last_test_run(collector.steps)
    yield build_recorded_trajectory(
        Record({"test_report": tests.report}, first.location),
        dataset,
        collector.steps,
        generated_answer=collector.answer,
        status="failure" if tests.has_failed else "success",
    )


def _unwrap_query(block: Record) -> dict[str, object]:
    """Return a block with the words of the person, without the tags that Cursor puts around them."""
    text = block.value.get("text")
    found = _QUERY.search(text) if isinstance(text, str) else None
    return {**block.value, "text": found[1]} if found else block.value
