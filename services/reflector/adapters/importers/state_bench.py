"""Reads results of STATE-Bench: `conversation`, turns whose calls hold their results, and the scores beside it.

Source of the format: https://github.com/microsoft/STATE-Bench, state_bench/schemas.py (Trajectory) and
state_bench/orchestrator.py. The text of a turn is the agent's message after its calls, so it follows them.
The outcome is `task_completion_pass` of a scored result, or `passed`; `error` of a run that stopped is a failure.
"""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record, join_content, read_call, to_json_text
from services.reflector.adapters.importers.step_collector import (
    RecordedOutcome,
    StepCollector,
    build_recorded_trajectory,
)
from services.reflector.adapters.importers.usage import read_usage
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import MAX_QUERY_CHARS, Role

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
_VERDICTS = ("task_completion_pass", "passed")
_CHECKS = ("state_requirements_met", "task_requirements_met")
"""The two scores of which `task_completion_pass` is made."""


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no result of STATE-Bench."""
    first = record.require_records("conversation")[0]
    if "role" not in first.value:
        raise first.build_error("role", "is missing; it names the speaker of a turn")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one result. Raise MalformedTrajectory naming turn and field."""
    collector = StepCollector(record.location)
    for turn in record.require_records("conversation"):
        _add_turn(collector, turn)
    error = record.get_text("error")[:MAX_QUERY_CHARS]
    return build_recorded_trajectory(
        record,
        dataset,
        collector.steps,
        _read_outcome(record),
        record.get_text("domain"),
        error_message=error or None,
        usage=read_usage(record.get_child("token_usage")),
        **({"status": "failure"} if error else {}),
    )


def _add_turn(collector: StepCollector, turn: Record) -> None:
    role = turn.get_choice("role", _ROLES)
    for call in turn.list_records("tool_calls"):
        _add_call(collector, call)
    text = join_content(turn)
    if text.strip() or not turn.has("tool_calls"):
        collector.add(turn.location, role, text)


def _add_call(collector: StepCollector, record: Record) -> None:
    call = read_call(record)
    collector.add(record.location, "assistant", "", calls=[call])
    if "result" in record.value:
        result = to_json_text(record.value["result"])
        collector.add(record.build_path("result"), "tool", result, name=call.name)


def _read_outcome(record: Record) -> RecordedOutcome | None:
    for name in _VERDICTS:
        if record.has(name):
            checks = [f"{check} {_read_flag(record, check):d}" for check in _CHECKS if record.has(check)]
            is_success = _read_flag(record, name)
            source = f"STATE-Bench's {name} is {to_json_text(record.value[name])}"
            return RecordedOutcome(is_success, f"{source} ({', '.join(checks)})" if checks else source)
    return None


def _read_flag(record: Record, name: str) -> bool:
    value = record.value[name]
    if value not in (0, 1):
        raise record.build_error(name, "must be true, false, 0 or 1")
    return bool(value)
