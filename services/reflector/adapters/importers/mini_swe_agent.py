"""Reads trajectories of mini-swe-agent, `*.traj.json`: `messages`, `info` and `trajectory_format`.

Source of the format: https://github.com/SWE-agent/mini-swe-agent, src/minisweagent/agents/default.py (versions 1 and
1.1). Models call the shell by tools, by items of OpenAI's Responses, or by a block in their text; `extra.actions` has
the commands in each case, and `extra` of a result the output and the exit code. The file does not hold the results of
tests: a submission counts as a self-reported success, unless `reward`, `status` or `test_report` was added to it.
"""

from __future__ import annotations

import json
import re

from services.reflector.adapters.importers.json_records import Record, build_model, join_content
from services.reflector.adapters.importers.step_collector import (
    StepCollector,
    build_recorded_trajectory,
    mark_as_error,
)
from services.reflector.adapters.importers.usage import read_usage
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import MAX_TEXT_CHARS, Role, ToolCall

_VERSION = re.compile(r"mini-swe-agent-1(\.1)?")
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_SHELL = "bash"
_SUBMITTED = "Submitted"


def has_name(record: Record) -> bool:
    """Return whether the record names this format, in a version that may be unknown."""
    version = record.value.get("trajectory_format")
    return isinstance(version, str) and version.startswith("mini-swe-agent")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the version is unknown, or if there are no messages."""
    if not _VERSION.fullmatch(record.get_text("trajectory_format")):
        raise record.build_error("trajectory_format", "must be mini-swe-agent-1 or mini-swe-agent-1.1")
    record.require_records("messages")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one file. Raise MalformedTrajectory naming message and field."""
    check_format(record)
    collector = StepCollector(record.location)
    for message in record.require_records("messages"):
        if message.value.get("role") != "exit":
            _add_message(collector, message)
    info = record.get_child_or_empty("info")
    status, submission = info.get_text("exit_status"), info.get_text("submission")
    overrides: dict[str, object] = {
        "generated_answer": submission[:MAX_TEXT_CHARS] if submission.strip() else collector.answer,
        "usage": read_usage(info.get_child("model_stats")),
    }
    if not record.has("status") and not record.has("reward") and status != _SUBMITTED:
        overrides |= {"status": "failure", "error_message": record.get_text("error_message") or status or None}
    return build_recorded_trajectory(record, dataset, collector.steps, **overrides)


def _add_message(collector: StepCollector, message: Record) -> None:
    extra = message.get_child_or_empty("extra")
    if "returncode" in extra.value:
        _add_result(collector, message, extra)
        return
    is_response = message.value.get("object") == "response"
    role = "assistant" if is_response else message.get_choice("role", _ROLES)
    text = _join_items(message) if is_response else join_content(message)
    calls = [_read_call(action) for action in extra.list_records("actions")]
    if calls:
        text = text.partition("```")[0].strip()  # What follows is the command as a block.
    if text or calls or role != "assistant":
        collector.add(message.location, role, text, calls=calls)


def _add_result(collector: StepCollector, message: Record, extra: Record) -> None:
    code, exception = extra.get_number("returncode"), extra.get_text("exception_info")
    text = extra.get_text("raw_output") or exception
    if code or exception:
        reason = exception or f"exit code {code:.0f}"
        text = mark_as_error(f"{text}\n({reason})" if text.strip() and text != exception else reason)
    call_id = message.get_text("tool_call_id") or message.get_text("call_id")
    collector.add(message.location, "tool", text, name=_SHELL, call_id=call_id)


def _join_items(message: Record) -> str:
    """Return the texts of the messages in a response of OpenAI."""
    return "\n\n".join(
        join_content(item) for item in message.list_records("output") if item.get_text("type") == "message"
    )


def _read_call(action: Record) -> ToolCall:
    arguments = json.dumps({"command": action.get_text("command")}, ensure_ascii=False)
    return build_model(ToolCall, action.location, id=action.get_text("tool_call_id"), name=_SHELL, arguments=arguments)
