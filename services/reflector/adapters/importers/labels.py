"""Reads the labels of failed trajectories, which only score attribution.

Two formats: Who&When logs (`mistake_agent`, `mistake_step`), and tau-bench results with `labels` (`failures` with
`step_number`, which counts from 1, and `failed_agent`; `root_cause`), as AgentRx publishes them.
"""

from __future__ import annotations

from services.reflector.adapters.importers import tau_bench, who_and_when
from services.reflector.adapters.importers.files import split_records
from services.reflector.adapters.importers.json_records import Record
from services.reflector.domain.recorded_trajectory import LabelledTrajectory

_DATASET = "blame"
_MAX_DIGITS = 9
_SPEAKERS = {"assistant": "assistant", "user": "user"}


def read_labelled(content: bytes) -> tuple[LabelledTrajectory, ...]:
    """Return the labelled trajectories of a file. Raise MalformedTrajectory naming line and field.

    Results of tau-bench without labels, such as passed ones, are left out.
    """
    labelled: list[LabelledTrajectory] = []
    for record in split_records(content):
        if not record.has("traj"):
            labelled.append(_read_who_and_when(record))
        elif labels := record.get_child("labels"):
            labelled.append(_read_tau_bench(record, labels))
    return tuple(labelled)


def read_wrong_steps(content: bytes) -> tuple[int | None, ...]:
    """Return for each result of a tau-bench file the step that people blame; None without labels.

    Raise MalformedTrajectory naming line and field.
    """
    return tuple(
        _read_tau_bench(record, labels).step if record.has("traj") and (labels := record.get_child("labels")) else None
        for record in split_records(content)
    )


def _read_who_and_when(record: Record) -> LabelledTrajectory:
    recorded = who_and_when.read(record, _DATASET)
    step = _read_number(record, "mistake_step", "must be the place of a step in `history`")
    return LabelledTrajectory(recorded.trajectory, step, record.get_text("mistake_agent"), frozenset({step}))


def _read_tau_bench(record: Record, labels: Record) -> LabelledTrajectory:
    recorded = tau_bench.read(record, _DATASET)
    failures = {failure.get_text("failure_id"): failure for failure in labels.list_records("failures")}
    cause = labels.get_child("root_cause")
    root = failures.get(cause.get_text("failure_id")) if cause else None
    if root is None:
        raise labels.build_error("root_cause", "must have the `failure_id` of one of `failures`")
    steps = recorded.trajectory.steps
    numbers = {name: _read_step(failure, len(steps)) for name, failure in failures.items()}
    step = numbers[root.get_text("failure_id")]
    agent = _SPEAKERS.get(root.get_text("failed_agent").lower(), steps[step].speaker)
    return LabelledTrajectory(recorded.trajectory, step, agent, frozenset(numbers.values()))


def _read_step(failure: Record, count: int) -> int:
    number = _read_number(failure, "step_number", "must be the number of a message of `traj`, from 1")
    if not 1 <= number <= count:
        raise failure.build_error("step_number", f"must be the number of a message of `traj`, 1 to {count}")
    return number - 1


def _read_number(record: Record, field: str, rule: str) -> int:
    label = record.get_text(field).strip()
    if not label.isascii() or not label.isdigit() or len(label) > _MAX_DIGITS:
        raise record.build_error(field, rule)
    return int(label)
