"""Reads tau-bench results: `{task_id, trial, reward, traj}` with `traj` as OpenAI-style messages."""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.messages import read_steps
from services.reflector.adapters.importers.step_collector import build_recorded_trajectory
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no tau-bench result."""
    record.require_list("traj")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one result. Raise MalformedTrajectory naming message and field."""
    steps = read_steps(record.list_records("traj"))
    if record.get_number("reward") is None:
        raise MalformedTrajectory(record.build_path("reward"), None, "must be a number, which determines the outcome")
    task, trial = record.get_text("task_id"), record.get_text("trial")
    return build_recorded_trajectory(record, dataset, steps, id=f"tau-bench-{task}-{trial}" if task and trial else "")
