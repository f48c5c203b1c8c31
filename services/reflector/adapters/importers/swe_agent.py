"""Reads SWE-agent's `.traj` files: `trajectory`, turns of thought, action and observation; `history`; `info`.

Source of the format: https://github.com/SWE-agent/SWE-agent, docs/usage/trajectories.md and sweagent/types.py (v0.7 to
v1.1). A turn becomes a step of the agent and one of its shell. The file does not hold the results of tests: a
submission counts as a self-reported success, unless `reward`, `status` or `test_report` was added to the file. Its
successor, mini-swe-agent, has a reader of its own.
"""

from __future__ import annotations

import json

from services.reflector.adapters.importers import mini_swe_agent
from services.reflector.adapters.importers.json_records import Record, build_model, join_content
from services.reflector.adapters.importers.step_collector import StepCollector, build_recorded_trajectory
from services.reflector.adapters.importers.usage import read_usage
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import MAX_TEXT_CHARS, ToolCall

_SUBMITTED = "submitted"
_SHELL = "bash"
_TURN = ("action", "observation")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no file of SWE-agent or mini-swe-agent."""
    if mini_swe_agent.has_name(record):
        mini_swe_agent.check_format(record)
        return
    for turn in record.require_records("trajectory")[:1]:
        for field in _TURN:
            if field not in turn.value:
                raise MalformedTrajectory(turn.build_path(field), None, "must be text")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one file. Raise MalformedTrajectory naming turn or message and field."""
    if mini_swe_agent.has_name(record):
        return mini_swe_agent.read(record, dataset)
    collector = StepCollector(record.location)
    _add_task(collector, record)
    for turn in record.list_records("trajectory"):
        _add_turn(collector, turn)
    info = record.get_child_or_empty("info")
    exit_status, submission = info.get_text("exit_status"), info.value.get("submission")
    has_submission = isinstance(submission, str) and bool(submission.strip())
    overrides: dict[str, object] = {
        "generated_answer": str(submission)[:MAX_TEXT_CHARS] if has_submission else collector.answer,
        "usage": read_usage(info.get_child("model_stats")),
    }
    if not record.has("status") and not record.has("reward") and exit_status != _SUBMITTED:
        # "submitted (exit_cost)" is an automatic submission of a stopped agent.
        overrides |= {"status": "failure", "error_message": record.get_text("error_message") or exit_status or None}
    return build_recorded_trajectory(record, dataset, collector.steps, **overrides)


def _add_task(collector: StepCollector, record: Record) -> None:
    """Add the instructions of the agent, without the demonstrations."""
    first = record.list_records("trajectory")[:1]
    messages = record.list_records("history") or (first[0].list_records("query") if first else [])
    for message in messages:
        if message.value.get("is_demo"):
            continue
        role = message.get_text("role")
        if role not in ("system", "user"):
            break
        collector.add(message.location, "system" if role == "system" else "user", join_content(message))


def _add_turn(collector: StepCollector, turn: Record) -> None:
    action = turn.get_text("action")
    thought, response = turn.get_text("thought"), turn.get_text("response")
    calls = []
    if action.strip():
        arguments = json.dumps({"command": action}, ensure_ascii=False)
        calls.append(build_model(ToolCall, turn.location, name=_SHELL, arguments=arguments))
    collector.add(turn.location, "assistant", thought or response, calls=calls)
    collector.add(turn.build_path("observation"), "tool", turn.get_text("observation"), name=_SHELL)
