"""Reads the Agent Trajectory Interchange Format (ATIF), v1.0 to v1.8.

Source of the format: https://github.com/laude-institute/harbor, docs/rfcs/0001-trajectory-format.md. A step of an agent
holds its calls and their results, so it becomes one step for the agent and one for each result. The format has no field
for the outcome; `status`, `reward`, `ground_truth`, `test_report`, `task_id` and the ids of bullets are read from
`extra`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from services.reflector.adapters.importers.json_records import Record, join_content, read_call
from services.reflector.adapters.importers.messages import find_query
from services.reflector.adapters.importers.step_collector import StepCollector, build_recorded_trajectory
from services.reflector.adapters.importers.usage import add_usages, build_usage, read_usage
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Role
from services.reflector.domain.usage import TrajectoryUsage

_VERSION = re.compile(r"ATIF-v1\.[0-8]")
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}


def has_name(record: Record) -> bool:
    """Return whether the record names this format, in a version that may be unknown."""
    version = record.value.get("schema_version")
    return isinstance(version, str) and version.startswith("ATIF-")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no ATIF trajectory."""
    version = record.value.get("schema_version")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise MalformedTrajectory(record.build_path("schema_version"), version, "must be ATIF-v1.0 to ATIF-v1.8")
    record.require_records("steps")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectories of a file, each before those of its sub-agents. Raise MalformedTrajectory."""
    for record in records:
        try:
            yield from _read_with_sub_agents(record, dataset, "")
        except RecursionError as error:
            raise MalformedTrajectory(record.location, "", "is nested too deeply") from error


def _read_with_sub_agents(record: Record, dataset: str, parent: str) -> Iterator[RecordedTrajectory]:
    check_format(record)
    recorded = _read(record, dataset, parent)
    yield recorded
    for sub_agent in record.list_records("subagent_trajectories"):
        yield from _read_with_sub_agents(sub_agent, dataset, recorded.trajectory.id)


def _read(record: Record, dataset: str, parent: str) -> RecordedTrajectory:
    """Return the trajectory of a record; a sub-agent that shares the id of `parent` gets one below it."""
    collector = StepCollector(record.location)
    agent = record.get_child_or_empty("agent").get_text("name")
    for number, step in enumerate(record.list_records("steps"), 1):
        if step.value.get("step_id") != number:
            rule = f"must be the step's number, {number}"
            raise step.build_error("step_id", rule)
        _add_step(collector, step, agent)
    extra = record.get_child_or_empty("extra")
    id_ = record.get_text("trajectory_id") or record.get_text("session_id")
    if parent and id_ in ("", parent):
        id_ = f"{parent}/{agent or record.location}"
    return build_recorded_trajectory(
        extra,
        dataset,
        collector.steps,
        id=id_,
        query=find_query(extra, collector.steps),
        generated_answer=extra.get_text("generated_answer") or collector.answer,
        usage=_read_usage(record),
    )


def _read_usage(record: Record) -> TrajectoryUsage | None:
    """Return the sums of the steps, or without any the final ones, whose cost includes that of sub-agents."""
    steps = [read_usage(step.get_child("metrics")) for step in record.list_records("steps")]
    if any(steps):
        return add_usages(steps, record.location)
    final = read_usage(record.get_child("final_metrics"))
    if final is None or not record.has("subagent_trajectories"):
        return final
    return build_usage(record.location, final.input_tokens, final.cached_input_tokens, final.output_tokens, None)


def _add_step(collector: StepCollector, step: Record, agent: str) -> None:
    role = step.get_choice("source", _ROLES)
    calls = [
        read_call(call, call.get_text("tool_call_id"), name="function_name") for call in step.list_records("tool_calls")
    ]
    name = agent if role == "assistant" else ""
    collector.add(
        step.location,
        role,
        join_content(step, "message"),
        thought=step.get_text("reasoning_content"),
        name=name,
        calls=calls,
    )
    for result in step.get_child_or_empty("observation").list_records("results"):
        call_id = result.get_text("source_call_id")
        collector.add(
            result.location,
            "tool",
            _format_observation_text(result),
            name=collector.find_tool_name(call_id),
            call_id=call_id,
        )


def _format_observation_text(result: Record) -> str:
    """Return the content of a result, or the ids of subagents, whose steps are in files of their own."""
    if result.has("content"):
        return join_content(result)
    subagents = result.list_records("subagent_trajectory_ref")
    return ", ".join(
        f"subagent {agent.get_text('session_id') or agent.get_text('trajectory_id')}" for agent in subagents
    )
