"""Reads hansei's own JSON: the fields of a trajectory, with `ground_truth` and `test_report` beside them.

The JSON form of the contract's messages is accepted too: its enum names, and a trajectory under `trajectory`, as in
requests of `Learn`.
"""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record, build_model
from services.reflector.adapters.importers.messages import find_last_answer, find_query, read_steps
from services.reflector.adapters.importers.usage import read_cost, read_tokens
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Trajectory
from services.reflector.domain.usage import TrajectoryUsage

_ROLE, _STATUS, _SIGNAL = "STEP_ROLE_", "TRAJECTORY_STATUS_", "SIGNAL_STRENGTH_"
_OUTCOME_FIELDS = ("ground_truth", "test_report")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no trajectory in hansei's form."""
    record = _unwrap(record)
    record.require_list("reasoning_steps" if record.has("reasoning_steps") else "steps")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of a record. Raise MalformedTrajectory naming the field."""
    record = _normalize_enums(_unwrap(record))
    steps = read_steps(record.list_records("steps"))
    for index, step in enumerate(record.list_records("steps")):
        if step.value.get("index", index) != index:
            raise step.build_error("index", f"must be the step's position, {index}")
    optional = {name: record.value[name] for name in ("created_at", "reward", "signal") if record.has(name)}
    trajectory = build_model(
        Trajectory,
        record.location,
        id=record.get_text("id"),
        task_id=record.get_text("task_id"),
        query=find_query(record, steps),
        dataset=record.get_text("dataset") or dataset,
        generated_answer=record.get_text("generated_answer") or find_last_answer(steps),
        reasoning_steps=record.list_texts("reasoning_steps"),
        used_bullet_ids=record.list_texts("used_bullet_ids"),
        cited_bullet_ids=record.list_texts("cited_bullet_ids"),
        serving_ids=record.list_texts("serving_ids"),
        status=record.get_text("status"),
        error_message=record.get_text("error_message") or None,
        steps=steps,
        usage=_read_usage(record.get_child("usage")),
        **optional,
    )
    return RecordedTrajectory(trajectory, record.get_text("ground_truth"), record.get_text("test_report"))


def _read_usage(record: Record | None) -> TrajectoryUsage | None:
    if record is None:
        return None
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    tokens = {name: read_tokens(record, name) for name in names}
    return build_model(TrajectoryUsage, record.location, **tokens, cost_usd=read_cost(record, "cost_usd"))


def _unwrap(record: Record) -> Record:
    """Return the trajectory of a record, also if the field `trajectory` holds it."""
    if not isinstance(record.value.get("trajectory"), dict):
        return record
    child = Record(record.value["trajectory"], record.build_path("trajectory"))
    beside = {name: record.value[name] for name in _OUTCOME_FIELDS if record.has(name)}
    return Record({**child.value, **beside}, child.location)


def _normalize_enums(record: Record) -> Record:
    """Return the record with the contract's enum names replaced by those of this format."""
    value = {**record.value, "status": _shorten_enum_name(record.value.get("status"), _STATUS)}
    if record.has("steps"):
        steps = (step.value for step in record.list_records("steps"))
        value["steps"] = [{**step, "role": _shorten_enum_name(step.get("role"), _ROLE)} for step in steps]
    if record.has("signal"):
        value["signal"] = _shorten_enum_name(record.value["signal"], _SIGNAL) or None
    return Record(value, record.location)


def _shorten_enum_name(value: object, prefix: str) -> object:
    """Return `success` for `TRAJECTORY_STATUS_SUCCESS`, "" for an unspecified value; other values unchanged."""
    if not isinstance(value, str) or not value.startswith(prefix):
        return value
    return value.removeprefix(prefix).lower().removeprefix("unspecified")
