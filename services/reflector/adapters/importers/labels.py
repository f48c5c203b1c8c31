"""Reads the labels of Who&When logs (`mistake_agent`, `mistake_step`), which only score attribution."""

from __future__ import annotations

from services.reflector.adapters.importers import who_and_when
from services.reflector.adapters.importers.files import split_records
from services.reflector.adapters.importers.json_records import Record
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import LabelledTrajectory

_DATASET = "blame"
_MAX_DIGITS = 9


def read_labelled(content: bytes) -> tuple[LabelledTrajectory, ...]:
    """Return the labelled trajectories of a file of Who&When logs. Raise MalformedTrajectory naming line and field."""
    return tuple(_read_record(record) for record in split_records(content))


def _read_record(record: Record) -> LabelledTrajectory:
    run = who_and_when.read(record, _DATASET)
    label = record.text("mistake_step").strip()
    if not label.isascii() or not label.isdigit() or len(label) > _MAX_DIGITS:
        raise MalformedTrajectory(record.field_path("mistake_step"), label, "must be the place of a step in `history`")
    return LabelledTrajectory(run.trajectory, int(label), record.text("mistake_agent"))
