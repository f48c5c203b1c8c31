"""Read files of trajectories as the recorded runs that guards are mined from and tested on."""

from __future__ import annotations

from pathlib import Path

from libs.guards.recorded_run import RecordedRun
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.adapters.importers.labels import read_wrong_steps
from services.reflector.domain.targets import list_events

_DATASET = "guards"


def read_runs(file: Path) -> list[RecordedRun]:
    """Return the runs of a file of any format of trajectories. Raises MalformedTrajectory, UnknownFormat."""
    content = file.read_bytes()
    trajectories = read_trajectories(content, _DATASET).runs
    wrong_steps = read_wrong_steps(content)
    if len(wrong_steps) != len(trajectories):
        wrong_steps = (None,) * len(trajectories)
    return [
        RecordedRun(
            id=recorded.trajectory.id,
            task_id=recorded.trajectory.task_id or recorded.trajectory.id,
            is_success=recorded.trajectory.status == "success",
            events=list_events(recorded.trajectory.transcript),
            domain=recorded.domain,
            wrong_step=wrong_step,
        )
        for recorded, wrong_step in zip(trajectories, wrong_steps, strict=True)
    ]
