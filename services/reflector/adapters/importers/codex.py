"""Reads rollouts of Codex, `~/.codex/sessions/…/rollout-*.jsonl`: a JSON object with `type` and `payload` a line.

Source of the format: https://github.com/openai/codex, codex-rs/protocol and codex-rs/history. Steps come from
`response_item`; the events tell the same messages once more, so only exit codes and the end of the turn are taken from
them. A rollout has no outcome: the last run of the project's tests decides, or an aborted last turn; else the outcome
is the agent's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from services.reflector.adapters.importers.json_records import Record, build_model, join_content, to_json_text
from services.reflector.adapters.importers.recorded_tests import build_test_report
from services.reflector.adapters.importers.step_collector import StepCollector, build_recorded_trajectory, mark_as_error
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Role, ToolCall

_EVENT, _ITEM, _META = "event_msg", "response_item", "session_meta"
_TYPES = (_META, _ITEM, _EVENT, "inter_agent_communication", "compacted", "turn_context", "world_state")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "developer": "system", "system": "system"}
_CONTEXT = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md instructions")
"""The beginnings of messages that the program adds to the conversation."""
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no line of a rollout."""
    if record.value.get("type") not in _TYPES:
        raise record.error("type", f"must be one of {', '.join(_TYPES)}")
    if not isinstance(record.value.get("payload"), dict):
        raise record.error("payload", "must be an object")


def read_runs(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of a rollout. Raise MalformedTrajectory with the line."""
    lines = list(records)
    for line in lines:
        check_format(line)
    payloads = [(line.text("type"), line.child("payload") or line) for line in lines]
    failed = _find_failed_calls(payload for kind, payload in payloads if kind == _EVENT)
    collector = StepCollector("rollout")
    thought = ""
    for kind, payload in payloads:
        if kind == _ITEM:
            thought = _add_item(collector, payload, failed, thought)
    if not any(step.role == "assistant" for step in collector.steps):
        return
    meta = next((payload for kind, payload in payloads if kind == _META), Record({}, lines[0].location))
    report = build_test_report(collector.steps)
    is_aborted = _is_aborted([payload for kind, payload in payloads if kind == _EVENT])
    is_failure = is_aborted or report.partition("\n")[0].endswith("failed.")
    outcome: dict[str, object] = {"status": "failure" if is_failure else "success"}
    if is_aborted:
        outcome["error_message"] = "The user aborted the turn."
    if timestamp := lines[0].text("timestamp"):
        outcome["created_at"] = timestamp
    fields = Record({"test_report": "" if is_aborted else report}, lines[0].location)
    yield build_recorded_trajectory(
        fields, dataset, collector.steps, id=meta.text("id"), generated_answer=collector.answer, **outcome
    )


def _find_failed_calls(events: Iterable[Record]) -> Mapping[str, str]:
    """Return how the failed calls ended, by call id."""
    failed: dict[str, str] = {}
    for event in events:
        call_id = event.text("call_id")
        code = event.number("exit_code") if event.text("type") == "exec_command_end" else None
        if code:
            failed[call_id] = f"exit code {code:.0f}"
        elif event.text("type") == "patch_apply_end" and event.value.get("success") is False:
            failed[call_id] = "the patch was not applied"
    return failed


def _is_aborted(events: Sequence[Record]) -> bool:
    """Return whether the last turn was aborted."""
    ends = [event.text("type") for event in events if event.text("type") in ("turn_aborted", "task_complete")]
    return bool(ends) and ends[-1] == "turn_aborted"


def _add_item(collector: StepCollector, item: Record, failed: Mapping[str, str], thought: str) -> str:
    """Add the step of an item, if it is one, and return the reasoning that belongs to the next step."""
    kind = item.text("type")
    if kind == "reasoning":
        summary = "\n\n".join(part.text("text") for part in item.records("summary"))
        return "\n\n".join(part for part in (thought, summary) if part)
    if kind == "message":
        role, text = item.choice("role", _ROLES), join_content(item)
        if not text.lstrip().startswith(_CONTEXT):
            collector.add(item.location, role, text, thought=thought if role == "assistant" else "")
        return "" if role == "assistant" else thought
    if kind in _OUTPUTS:
        _add_output(collector, item, failed)
        return thought
    if kind.endswith("_call"):
        collector.add(item.location, "assistant", "", thought=thought, calls=[_read_call(kind, item)])
        return ""
    return thought


def _read_call(kind: str, item: Record) -> ToolCall:
    is_named = kind in ("function_call", "custom_tool_call")
    name = item.require_name("name") if is_named else kind.removesuffix("_call")
    field = next((field for field in ("arguments", "input", "action") if item.has(field)), "arguments")
    call_id = item.text("call_id") or item.text("id")
    arguments = _unwrap_command(to_json_text(item.value.get(field)))
    return build_model(ToolCall, item.location, id=call_id, name=name, arguments=arguments)


def _unwrap_command(arguments: str) -> str:
    """Return arguments with the command of a shell, such as `npm test` in place of `["bash", "-lc", "npm test"]`."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    command = parsed.get("command") if isinstance(parsed, dict) else None
    if isinstance(command, list) and len(command) == 3 and command[1] in ("-c", "-lc"):
        return to_json_text({**parsed, "command": command[2]})
    return arguments


def _add_output(collector: StepCollector, item: Record, failed: Mapping[str, str]) -> None:
    call_id = item.text("call_id")
    text, code = _read_output(item)
    reason = failed.get(call_id) or (f"exit code {code}" if code else "")
    if reason:
        text = mark_as_error(f"{text}\n({reason})" if text.strip() else reason)
    collector.add(item.location, "tool", text, name=collector.find_tool_name(call_id), call_id=call_id)


def _read_output(item: Record) -> tuple[str, int]:
    """Return the text of an output, and its exit code if it has one; older rollouts write both as JSON in a text."""
    value = item.value.get("output")
    if isinstance(value, dict):
        return join_content(Record(value, item.field_path("output"))), int(value.get("success") is False)
    text = join_content(item, "output")
    if not text.startswith('{"output"'):
        return text, 0
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text, 0
    metadata = parsed.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else 0
    return to_json_text(parsed.get("output")), code if isinstance(code, int) else 0
