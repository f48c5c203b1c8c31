"""Reads tau-bench results: `{task_id, trial, reward, traj}` with `traj` as OpenAI-style messages."""

from __future__ import annotations

from services.reflector.adapters.importers.messages import last_answer, query_of, steps_of
from services.reflector.adapters.importers.records import Record, validated
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.outcome import REWARD_OF_SUCCESS
from services.reflector.domain.recorded_run import RecordedRun
from services.reflector.domain.trajectory import Trajectory


def matches(record: Record) -> bool:
    """Whether `record` looks like a result of this kind."""
    return isinstance(record.value.get("traj"), list)


def read(record: Record, dataset: str) -> RecordedRun:
    """The run of one result. Raises MalformedTrajectory naming message and field."""
    steps = steps_of(record.records("traj"))
    reward = record.number("reward")
    if reward is None:
        raise MalformedTrajectory(record.path("reward"), None, "must be a number: it says how the run ended")
    task, trial = record.text("task_id"), record.text("trial")
    trajectory = validated(
        Trajectory,
        record.where,
        id=f"tau-bench-{task}-{trial}" if task and trial else "",
        task_id=task,
        query=query_of(record, steps),
        dataset=dataset,
        generated_answer=last_answer(steps),
        reasoning_steps=(),
        used_bullet_ids=(),
        status="success" if reward > REWARD_OF_SUCCESS else "failure",
        reward=reward,
        steps=steps,
    )
    return RecordedRun(trajectory)
