"""Reads Who&When logs: failed trajectories of several agents, as `{question, history: [{content, name, role}], ...}`.

`name` holds the speaker, or else `role`, where `Orchestrator (-> WebSurfer)` means that Orchestrator speaks to
WebSurfer. The labels of such a log (`mistake_agent`, `mistake_step`, `mistake_reason`) are never read here: they score
a reflector, which must not see them.
"""

from __future__ import annotations

import re

from services.reflector.adapters.importers.json_records import Record, build_model, join_content
from services.reflector.adapters.importers.messages import find_last_answer, find_query
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Role, Step, Trajectory

_ASIDE = re.compile(r"\s*\((?:->[^()]*|thought|termination condition|[a-z ]{1,40})\)\s*$", re.I)
_EXECUTION = re.compile(r"[^\n]{0,80}\bexit ?code:?\s*-?\d+|There is no code from the last \d+ message", re.I)
_END_MARK = "TERMINATE"
_PEOPLE = frozenset({"human", "user"})


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no Who&When log."""
    record.require_list("history")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one log. Raise MalformedTrajectory naming the field."""
    steps = tuple(_read_step(index, turn) for index, turn in enumerate(record.list_records("history")))
    spoken = tuple(step for step in steps if step.content.strip() != _END_MARK)
    trajectory = build_model(
        Trajectory,
        record.location,
        id=record.get_text("id") or record.get_text("question_ID"),
        task_id=record.get_text("question_ID"),
        query=find_query(record, steps, "question"),
        dataset=dataset,
        generated_answer=find_last_answer(spoken),
        reasoning_steps=(),
        used_bullet_ids=(),
        status="success" if record.value.get("is_correct") is True else "failure",
        steps=steps,
    )
    return RecordedTrajectory(trajectory, ground_truth=record.get_text("ground_truth"))


def _find_speaker(turn: Record) -> str:
    """Return the speaker: `name`, or else `role` without a suffix in brackets."""
    return turn.get_text("name").strip() or _ASIDE.sub("", turn.get_text("role")).strip()


def _read_step(index: int, turn: Record) -> Step:
    content, speaker = join_content(turn), _find_speaker(turn)
    return build_model(
        Step, turn.location, index=index, role=_classify_role(speaker, content), name=speaker, content=content
    )


def _classify_role(speaker: str, content: str) -> Role:
    if _EXECUTION.match(content):
        return "tool"
    if speaker.lower() in _PEOPLE:
        return "user"
    return "system" if speaker.lower() == "system" else "assistant"
