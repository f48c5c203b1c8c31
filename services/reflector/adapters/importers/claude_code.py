"""Reads transcripts of Claude Code, `~/.claude/projects/<project>/<session>.jsonl`: a JSON object a line.

Source of the format: https://github.com/anthropics/claude-agent-sdk-python, src/claude_agent_sdk/_internal/sessions.py.
The lines of a session are a tree: a person who goes back in the conversation begins a new branch. The trajectory is the
branch of the newest message, read from there up `parentUuid`. Sub-agents are trajectories of their own, whether their
lines are in the same file or in one of their own. A transcript has no outcome: the last run of the project's tests
decides, or an interruption by the person as the last word; else the outcome is the agent's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from services.reflector.adapters.importers import anthropic
from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.recorded_tests import find_last_test_run
from services.reflector.adapters.importers.step_collector import StepCollector, build_recorded_trajectory
from services.reflector.adapters.importers.usage import add_usages, build_usage, read_cost, read_usage
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Step
from services.reflector.domain.usage import TrajectoryUsage

_MESSAGES = ("user", "assistant")
_OTHER_LINES = {"summary": "leafUuid", "file-history-snapshot": "snapshot"}
"""Lines without a session that a transcript may begin with, and a field that each has."""
_FOREIGN = ("id", "traceId")
"""Fields of observations of Langfuse, which have a session too."""
_COMMANDS = ("<command-name>", "<command-message>", "<local-command-")
"""The beginnings of user messages that report a command of the program, which the model does not answer."""
_EXIT_CODE = re.compile(r"(Exit code \d+)\n(?=.)")
"""The first line of the result of a command that failed and wrote something."""
_INTERRUPTED = "[Request interrupted by user"


@dataclass(frozen=True, slots=True)
class _Line:
    record: Record
    number: int
    uuid: str
    parent: str

    @property
    def agent(self) -> str:
        """Return the id of the sub-agent of the line; empty for the main agent."""
        return (self.record.get_text("agentId") or "sub-agent") if self.record.value.get("isSidechain") is True else ""

    @property
    def kind(self) -> str:
        return self.record.get_text("type")

    @property
    def is_message(self) -> bool:
        """Return whether the line is a message between the person, the model and its tools."""
        flags = (self.record.value.get(name) for name in ("isMeta", "isCompactSummary"))
        if self.kind not in _MESSAGES or any(flag is True for flag in flags):
            return False
        return not _get_text(self.record).lstrip().startswith(_COMMANDS)


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no line of such a transcript."""
    kind = record.value.get("type")
    field = _OTHER_LINES.get(kind) if isinstance(kind, str) else None
    if field is not None and record.has(field):
        return
    for name in ("type", "sessionId"):
        if not isinstance(record.value.get(name), str):
            raise record.build_error(name, "must be a text: a line of a Claude Code transcript has it")
    if not record.has("uuid") and any(map(record.has, _FOREIGN)):
        raise record.build_error("uuid", "must be a text: a message of a Claude Code transcript has it")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of the main agent and those of its sub-agents. Raise MalformedTrajectory with the line."""
    lines = [_read_line(number, record) for number, record in enumerate(records) if record.has("uuid")]
    by_uuid = {line.uuid: line for line in lines}
    messages: dict[str, list[_Line]] = {}
    for line in lines:
        if line.is_message:
            messages.setdefault(line.agent, []).append(line)
    for agent, own_messages in messages.items():
        branch = [line for line in _find_branch(own_messages[-1], by_uuid) if line.is_message]
        recorded = _read_trajectory(_add_parallel_calls(branch, own_messages), agent, dataset)
        if recorded is not None:
            yield recorded


def _read_line(number: int, record: Record) -> _Line:
    # After a compaction the conversation continues from `logicalParentUuid`.
    return _Line(
        record, number, record.get_text("uuid"), record.get_text("parentUuid") or record.get_text("logicalParentUuid")
    )


def _find_branch(leaf: _Line, by_uuid: dict[str, _Line]) -> list[_Line]:
    """Return the lines from the first one to `leaf`. Raise MalformedTrajectory if their parents form a circle."""
    branch = [leaf]
    seen = {leaf.uuid}
    while (parent := by_uuid.get(branch[-1].parent)) is not None:
        if parent.uuid in seen:
            raise branch[-1].record.build_error("parentUuid", "must not form a circle of parents")
        seen.add(parent.uuid)
        branch.append(parent)
    return branch[::-1]


def _add_parallel_calls(branch: Sequence[_Line], lines: Sequence[_Line]) -> list[_Line]:
    """Return the branch with the lines beside it: other blocks of its messages, and results of its calls.

    A message with several calls is written as several lines, and only the result of one call continues the branch.
    """
    found = {line.uuid: line for line in branch}
    messages = {_get_message_id(line) for line in branch} - {""}
    for line in lines:
        if line.uuid not in found and _get_message_id(line) in messages:
            found[line.uuid] = line
    calls = {block.get_text("id") for line in found.values() for block in _list_blocks(line, "tool_use")}
    calls -= {block.get_text("tool_use_id") for line in found.values() for block in _list_blocks(line, "tool_result")}
    for line in lines:
        results = {block.get_text("tool_use_id") for block in _list_blocks(line, "tool_result")}
        if line.uuid not in found and results & calls:
            found[line.uuid] = line
            calls -= results
    return sorted(found.values(), key=lambda line: line.number)


def _read_trajectory(lines: Sequence[_Line], agent: str, dataset: str) -> RecordedTrajectory | None:
    """Return the trajectory of one branch of a Claude Code transcript; None if no model wrote a message."""
    if not any(line.kind == "assistant" for line in lines):
        return None
    collector = StepCollector("transcript")
    for message in _join_messages(lines):
        anthropic.add_message(collector, message)
    first = lines[0].record
    session = first.get_text("sessionId")
    tests = find_last_test_run(collector.steps)
    interruption = _find_interruption(collector.steps)
    status = "failure" if interruption or tests.has_failed else "success"
    outcome: dict[str, object] = {"status": status, "error_message": interruption}
    if timestamp := first.get_text("timestamp"):
        outcome["created_at"] = timestamp
    fields = Record({"test_report": "" if interruption else tests.report}, first.location)
    return build_recorded_trajectory(
        fields,
        dataset,
        collector.steps,
        id=f"{session}/{agent}" if agent else session,
        generated_answer=collector.answer,
        usage=_sum_usages(lines),
        **outcome,
    )


def _sum_usages(lines: Sequence[_Line]) -> TrajectoryUsage | None:
    """Return the usage of the messages of the model; the last line of a message has that of the whole message."""
    usages: dict[str, TrajectoryUsage] = {}
    for line in lines:
        message = line.record.get_child("message")
        usage = _read_usage(line.record, message) if message is not None and line.kind == "assistant" else None
        if usage is not None:
            usages[_get_message_id(line) or line.uuid] = usage
    return add_usages(usages.values(), lines[0].record.location)


def _read_usage(line: Record, message: Record) -> TrajectoryUsage | None:
    """Return the usage of a line; older versions write the cost beside the message."""
    cost = build_usage(line.location, None, None, None, read_cost(line, "costUSD"))
    return add_usages([read_usage(message.get_child("usage")), cost], line.location)


def _join_messages(lines: Sequence[_Line]) -> Iterator[Record]:
    """Yield the messages of lines; lines with parts of one message of the model are one."""
    parts: list[Record] = []
    current = ""
    for line in lines:
        message = line.record.get_child("message")
        if message is None:
            raise line.record.build_error("message", "must be an object")
        message_id = _get_message_id(line)
        if parts and message_id != current:
            yield _join_parts(parts)
            parts = []
        if message_id:
            parts.append(message)
        else:
            yield _put_exit_code_last(message)
        current = message_id
    if parts:
        yield _join_parts(parts)


def _join_parts(parts: Sequence[Record]) -> Record:
    blocks: list[object] = []
    for part in parts:
        content = part.value.get("content")
        blocks += content if isinstance(content, list) else [{"type": "text", "text": part.get_text("content")}]
    return Record({**parts[0].value, "content": blocks}, parts[0].location)


def _find_interruption(steps: Sequence[Step]) -> str | None:
    last = steps[-1] if steps else None
    is_interrupted = last is not None and last.role == "user" and last.content.startswith(_INTERRUPTED)
    return "The user interrupted the agent." if is_interrupted else None


def _get_message_id(line: _Line) -> str:
    message = line.record.value.get("message")
    is_reply = line.kind == "assistant" and isinstance(message, dict)
    return Record(message, line.record.build_path("message")).get_text("id") if is_reply else ""


def _put_exit_code_last(message: Record) -> Record:
    """Return a message whose results begin with the output of the program and end with its exit code."""
    content = message.value.get("content")
    if not isinstance(content, list):
        return message
    return Record({**message.value, "content": [_reorder_result(block) for block in content]}, message.location)


def _reorder_result(block: object) -> object:
    text = block.get("content") if isinstance(block, dict) else None
    found = _EXIT_CODE.match(text) if isinstance(text, str) else None
    if not isinstance(block, dict) or not isinstance(text, str) or not found:
        return block
    return {**block, "content": f"{text[found.end() :]}\n({found[1].lower()})"}


def _list_blocks(line: _Line, kind: str) -> list[Record]:
    message = line.record.value.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return []
    blocks = Record(message, line.record.build_path("message")).list_records("content")
    return [block for block in blocks if block.value.get("type") == kind]


def _get_text(record: Record) -> str:
    message = record.value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""
