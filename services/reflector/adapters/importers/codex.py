"""Reads rollouts of Codex, `~/.codex/sessions/…/rollout-*.jsonl`: a JSON object with `type` and `payload` a line.

Source of the format: https://github.com/openai/codex, codex-rs/protocol and codex-rs/history. Steps come from
`response_item`; the events tell the same messages once more, so only exit codes, tokens and the end of the turn are
taken from them. A rollout has no outcome: the last run of the tests decides, or an aborted last turn; else the
outcome is the agent's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.recorded_tests import find_last_test_run
from services.reflector.adapters.importers.response_items import ItemSteps
from services.reflector.adapters.importers.step_collector import build_recorded_trajectory
from services.reflector.adapters.importers.usage import read_usage
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.usage import TrajectoryUsage

_COMMAND_ENDS = ("exec_command_end", "CommandExecution")
"""The ends of commands: an event of its own, or in newer versions the item of one."""
_EVENT, _ITEM, _META, _USAGE = "event_msg", "response_item", "session_meta", "token_usage_record"
_TYPES = (_META, _ITEM, _EVENT, "inter_agent_communication", "compacted", "turn_context", "world_state")
"""The types that a rollout may begin with. Codex adds types of lines in each version; others are not read."""
_CONTEXT = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<skills_instructions>",
    "# AGENTS.md instructions",
)
"""The beginnings of messages that the program adds to the conversation."""


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no line of a rollout."""
    if record.value.get("type") not in _TYPES:
        raise record.build_error("type", f"must be one of {', '.join(_TYPES)}")
    _check_line(record)


def _check_line(record: Record) -> None:
    if not isinstance(record.value.get("type"), str):
        raise record.build_error("type", "must be text")
    if not isinstance(record.value.get("payload"), dict):
        raise record.build_error("payload", "must be an object")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of a rollout. Raise MalformedTrajectory with the line."""
    lines = list(records)
    check_format(lines[0])
    for line in lines[1:]:
        _check_line(line)
    payloads = [(line.get_text("type"), line.get_child("payload") or line) for line in lines]
    failed = _find_failed_calls(payload for kind, payload in payloads if kind == _EVENT)
    items = ItemSteps("rollout", failed, left_out=_CONTEXT)
    for kind, payload in payloads:
        if kind == _ITEM:
            items.add(payload)
    steps = items.collector.steps
    if not any(step.role == "assistant" for step in steps):
        return
    meta = next((payload for kind, payload in payloads if kind == _META), Record({}, lines[0].location))
    tests = find_last_test_run(steps)
    is_aborted = _is_aborted([payload for kind, payload in payloads if kind == _EVENT])
    outcome: dict[str, object] = {"status": "failure" if is_aborted or tests.has_failed else "success"}
    if is_aborted:
        outcome["error_message"] = "The user aborted the turn."
    if timestamp := lines[0].get_text("timestamp"):
        outcome["created_at"] = timestamp
    fields = Record({"test_report": "" if is_aborted else tests.report}, lines[0].location)
    yield build_recorded_trajectory(
        fields,
        dataset,
        steps,
        id=meta.get_text("id"),
        generated_answer=items.collector.answer,
        usage=_read_last_usage(payloads),
        **outcome,
    )


def _find_failed_calls(events: Iterable[Record]) -> Mapping[str, str]:
    """Return how the failed calls ended, by call id."""
    failed: dict[str, str] = {}
    for event in events:
        kind, call, call_id = event.get_text("type"), event, event.get_text("call_id")
        item = event.get_child("item") if kind == "item_completed" else None
        if item is not None:
            kind, call, call_id = item.get_text("type"), item, item.get_text("id")
        code = call.get_number("exit_code") if kind in _COMMAND_ENDS else None
        if code:
            failed[call_id] = f"exit code {code:.0f}"
        elif (kind == "patch_apply_end" and call.value.get("success") is False) or (
            kind == "FileChange" and call.value.get("status") == "failed"
        ):
            failed[call_id] = "the patch was not applied"
    return failed


def _read_last_usage(payloads: Sequence[tuple[str, Record]]) -> TrajectoryUsage | None:
    """Return the last count of the tokens of the session: of a line of its own, or in older versions of an event."""
    counts = [payload.get_child("thread_token_usage") for kind, payload in payloads if kind == _USAGE]
    for kind, payload in payloads:
        if kind == _EVENT and payload.get_text("type") == "token_count":
            counts.append(payload.get_child_or_empty("info").get_child("total_token_usage"))
    totals = [count for count in counts if count is not None]
    return read_usage(totals[-1]) if totals else None


def _is_aborted(events: Sequence[Record]) -> bool:
    """Return whether the last turn was aborted."""
    ends = [event.get_text("type") for event in events if event.get_text("type") in ("turn_aborted", "task_complete")]
    return bool(ends) and ends[-1] == "turn_aborted"
