"""Reads OpenAI-style conversations: a list of messages, or an object with `messages` and what the outcome was."""

from __future__ import annotations

from services.reflector.adapters.importers.messages import last_answer, query_of, steps_of
from services.reflector.adapters.importers.records import Record, validated
from services.reflector.domain.outcome import REWARD_OF_SUCCESS
from services.reflector.domain.recorded_run import RecordedRun
from services.reflector.domain.trajectory import Trajectory


def matches(record: Record) -> bool:
    """Whether `record` looks like a conversation of this kind."""
    return isinstance(record.value.get("messages"), list)


def read(record: Record, dataset: str) -> RecordedRun:
    """The run of one conversation; `status` is its own, else by `reward`, else success.

    Raises MalformedTrajectory naming message and field.
    """
    steps = steps_of(record.records("messages"))
    reward = record.number("reward")
    succeeded = reward is None or reward > REWARD_OF_SUCCESS
    trajectory = validated(
        Trajectory,
        record.where,
        id=record.text("id"),
        task_id=record.text("task_id"),
        query=query_of(record, steps),
        dataset=record.text("dataset") or dataset,
        generated_answer=record.text("generated_answer") or last_answer(steps),
        reasoning_steps=(),
        used_bullet_ids=record.texts("used_bullet_ids"),
        cited_bullet_ids=record.texts("cited_bullet_ids"),
        status=record.text("status") or ("success" if succeeded else "failure"),
        error_message=record.text("error_message") or None,
        reward=reward,
        steps=steps,
    )
    return RecordedRun(trajectory, record.text("ground_truth"), record.text("test_report"))
