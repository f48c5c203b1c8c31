"""Reads the labels of Who&When logs (`mistake_agent`, `mistake_step`); they score attribution and do nothing else."""

from __future__ import annotations

from services.reflector.adapters.importers import who_and_when
from services.reflector.adapters.importers.files import records_of
from services.reflector.adapters.importers.records import Record
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_run import LabelledRun

_DATASET = "blame"
_MAX_DIGITS = 9


def read_labelled(content: bytes) -> tuple[LabelledRun, ...]:
    """The labelled runs of a file of Who&When logs. Raises MalformedTrajectory naming line and field."""
    return tuple(_labelled(record) for record in records_of(content))


def _labelled(record: Record) -> LabelledRun:
    run = who_and_when.read(record, _DATASET)
    label = record.text("mistake_step").strip()
    if not label.isascii() or not label.isdigit() or len(label) > _MAX_DIGITS:
        raise MalformedTrajectory(record.path("mistake_step"), label, "must be the place of a step in `history`")
    return LabelledRun(run.trajectory, int(label), record.text("mistake_agent"))
