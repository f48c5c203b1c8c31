"""Reads our own JSON: the fields of a trajectory, with `ground_truth` and `test_report` beside them.

What the contract writes as JSON is read, too: its names of roles and states, and a trajectory under `trajectory`, as
`Learn` takes it.
"""

from __future__ import annotations

from services.reflector.adapters.importers.messages import last_answer, query_of, steps_of
from services.reflector.adapters.importers.records import Record, validated
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_run import RecordedRun
from services.reflector.domain.trajectory import Trajectory

_ROLE, _STATUS, _SIGNAL = "STEP_ROLE_", "TRAJECTORY_STATUS_", "SIGNAL_STRENGTH_"
_BESIDE = ("ground_truth", "test_report")


def expect(record: Record) -> None:
    """Raises MalformedTrajectory naming what speaks against a trajectory in our own form."""
    record = _unwrapped(record)
    record.listed("reasoning_steps" if record.has("reasoning_steps") else "steps")


def read(record: Record, dataset: str) -> RecordedRun:
    """The run of one trajectory. Raises MalformedTrajectory naming the field."""
    record = _plain(_unwrapped(record))
    steps = steps_of(record.records("steps"))
    for place, step in enumerate(record.records("steps")):
        if step.value.get("index", place) != place:
            raise MalformedTrajectory(step.path("index"), step.value["index"], f"must be the step's place, {place}")
    optional = {name: record.value[name] for name in ("created_at", "reward", "signal") if record.has(name)}
    trajectory = validated(
        Trajectory,
        record.where,
        id=record.text("id"),
        task_id=record.text("task_id"),
        query=query_of(record, steps),
        dataset=record.text("dataset") or dataset,
        generated_answer=record.text("generated_answer") or last_answer(steps),
        reasoning_steps=record.texts("reasoning_steps"),
        used_bullet_ids=record.texts("used_bullet_ids"),
        cited_bullet_ids=record.texts("cited_bullet_ids"),
        status=record.text("status"),
        error_message=record.text("error_message") or None,
        steps=steps,
        **optional,
    )
    return RecordedRun(trajectory, record.text("ground_truth"), record.text("test_report"))


def _unwrapped(record: Record) -> Record:
    """A trajectory, also where it stands in `trajectory` with its outcome beside it."""
    if not isinstance(record.value.get("trajectory"), dict):
        return record
    inner = Record(record.value["trajectory"], record.path("trajectory"))
    beside = {name: record.value[name] for name in _BESIDE if record.has(name)}
    return Record({**inner.value, **beside}, inner.where)


def _plain(record: Record) -> Record:
    """The same in our own words where a message of the contract was written as JSON."""
    value = {**record.value, "status": _word(record.value.get("status"), _STATUS)}
    if record.has("steps"):
        steps = (step.value for step in record.records("steps"))
        value["steps"] = [{**step, "role": _word(step.get("role"), _ROLE)} for step in steps]
    if record.has("signal"):
        value["signal"] = _word(record.value["signal"], _SIGNAL) or None
    return Record(value, record.where)


def _word(value: object, prefix: str) -> object:
    """`success` for `TRAJECTORY_STATUS_SUCCESS`, nothing for what was not said; anything else as it is."""
    if not isinstance(value, str) or not value.startswith(prefix):
        return value
    return value.removeprefix(prefix).lower().removeprefix("unspecified")
