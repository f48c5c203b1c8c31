"""Reads the steps of a smolagents agent, `agent.memory.get_full_steps()`: a list of objects, one trajectory.

Source of the format: https://github.com/huggingface/smolagents, src/smolagents/memory.py (TaskStep, ActionStep,
PlanningStep). A step has no outcome but its error; a run that reached its maximum of steps is a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from services.reflector.adapters.importers.json_records import Record, read_call, to_json_text
from services.reflector.adapters.importers.step_collector import (
    StepCollector,
    build_recorded_trajectory,
    mark_as_error,
)
from services.reflector.adapters.importers.usage import add_usages, read_usage
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import ToolCall
from services.reflector.domain.usage import TrajectoryUsage

_CODE = "<code>"


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no step of an agent's memory."""
    if _is_task(record) or _is_prompt(record) or _is_plan(record):
        return
    for name in ("step_number", "timing"):
        if not record.has(name):
            raise record.build_error(name, "is missing; each action step of smolagents has it")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of a memory. Raise MalformedTrajectory with step and field."""
    collector = StepCollector("trajectories")
    actions: list[Record] = []
    usages: list[TrajectoryUsage | None] = []
    first: Record | None = None
    for record in records:
        check_format(record)
        first = first or record
        usages.append(read_usage(record.get_child("token_usage")))
        if _is_prompt(record):
            collector.add(record.location, "system", record.get_text("system_prompt"))
        elif _is_task(record):
            collector.add(record.location, "user", record.get_text("task"))
        elif _is_plan(record):
            collector.add(record.location, "assistant", record.get_text("plan"))
        else:
            actions.append(record)
            _add_action(collector, record)
    if first is None or not actions:
        return
    last = actions[-1]
    error = last.get_child("error")
    answer = to_json_text(last.value.get("action_output")) or _find_final_answer(collector) or collector.answer
    yield build_recorded_trajectory(
        Record({}, first.location),
        dataset,
        collector.steps,
        generated_answer=answer,
        status="failure" if error else "success",
        error_message=error.get_text("message") if error else None,
        usage=add_usages(usages, first.location),
    )


def _find_final_answer(collector: StepCollector) -> str:
    """Return the result of the last call of `final_answer`, empty without one."""
    return next((step.content for step in reversed(collector.steps) if step.name == "final_answer"), "")


def _is_task(record: Record) -> bool:
    return record.has("task") and not record.has("step_number")


def _is_prompt(record: Record) -> bool:
    return list(record.value) == ["system_prompt"]


def _is_plan(record: Record) -> bool:
    return record.has("plan") and not record.has("step_number")


def _add_action(collector: StepCollector, step: Record) -> None:
    text = to_json_text(step.value.get("model_output"))
    calls = [_read_call(call) for call in _list_calls(step)]
    if step.has("code_action"):
        text = text.partition(_CODE)[0].strip()
    if text or calls:
        collector.add(step.location, "assistant", text, calls=calls)
    error = step.get_child("error")
    result = "\n".join(
        part for part in (step.get_text("observations"), error.get_text("message") if error else "") if part
    )
    if calls and result:
        call = calls[-1]
        result = mark_as_error(result) if error else result
        collector.add(step.location, "tool", result, name=call.name, call_id=call.id)


def _list_calls(step: Record) -> list[Record]:
    """Return the calls of a step; those of a failed step stand only in the message of the model."""
    if calls := step.list_records("tool_calls"):
        return calls
    return step.get_child_or_empty("model_output_message").list_records("tool_calls")


def _read_call(call: Record) -> ToolCall:
    function = call.get_child("function")
    if function is None:
        raise call.build_error("function", "must be an object")
    return read_call(function, call.get_text("id"))
