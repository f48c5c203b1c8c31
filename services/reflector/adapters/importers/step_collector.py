"""Collects steps, for formats whose messages hold several steps each, and builds recorded trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.reflector.adapters.importers.json_records import Record, build_model
from services.reflector.adapters.importers.messages import find_last_answer, find_query
from services.reflector.adapters.importers.usage import read_usage
from services.reflector.domain.outcome import REWARD_OF_SUCCESS
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.reflection import Signal
from services.reflector.domain.trajectory import MAX_TEXT_CHARS, Role, Step, ToolCall, Trajectory

_FAILED = "Error: "


class StepCollector:
    """Collects steps; each gets the next index and its location below `root` as its source."""

    def __init__(self, root: str) -> None:
        self._root = f"{root}."
        self._steps: list[Step] = []
        self._tools: dict[str, str] = {}
        self.answer = ""
        """The last message of an agent, without its reasoning."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the collected steps in order."""
        return tuple(self._steps)

    def add(
        self,
        location: str,
        role: Role,
        text: str,
        *,
        thought: str = "",
        name: str = "",
        calls: Sequence[ToolCall] = (),
        call_id: str = "",
    ) -> None:
        """Append a step, with the reasoning before the message. Raise MalformedTrajectory with the location."""
        self._steps.append(
            build_model(
                Step,
                location,
                index=len(self._steps),
                role=role,
                name=name,
                content="\n\n".join(part for part in (thought, text) if part.strip()),
                tool_calls=tuple(calls),
                tool_call_id=call_id,
                source=location.removeprefix(self._root),
            )
        )
        self._tools.update({call.id: call.name for call in calls if call.id})
        if role == "assistant" and text.strip():
            self.answer = text[:MAX_TEXT_CHARS]

    def find_tool_name(self, call_id: str) -> str:
        """Return the tool of the call with an id, empty if there is none."""
        return self._tools.get(call_id, "")


def mark_as_error(text: str) -> str:
    """Return the result of a failed tool call, marked as an error in its text: a step has no field for it."""
    return text if text.lstrip().lower().startswith("error") else f"{_FAILED}{text}"


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """An outcome that a file records, and the `source` that says so, a sentence without its period."""

    is_success: bool
    source: str
    signal: Signal = "test_report"
    reward: float | None = None

    @property
    def report(self) -> str:
        """Return the test report, from which a reader sees how the outcome was derived."""
        return f"{'Passed' if self.is_success else 'Failed'}.\nSource: {self.source}."

    @property
    def fields(self) -> dict[str, object]:
        """Return the fields of the trajectory."""
        status = "success" if self.is_success else "failure"
        return {"status": status, "signal": self.signal, "reward": self.reward}


def build_recorded_trajectory(
    record: Record,
    dataset: str,
    steps: tuple[Step, ...],
    outcome: RecordedOutcome | None = None,
    domain: str = "",
    /,
    **overrides: object,
) -> RecordedTrajectory:
    """Return the trajectory with these steps; `overrides` take precedence over the fields of `record`.

    `outcome` takes precedence over both. Without it the status is that of the record, else it follows from `reward`,
    else it is success.
    Raise MalformedTrajectory with the field.
    """
    reward = record.get_number("reward")
    is_success = reward is None or reward > REWARD_OF_SUCCESS
    fields: dict[str, object] = {
        "id": record.get_text("id"),
        "task_id": record.get_text("task_id"),
        "dataset": record.get_text("dataset") or dataset,
        "generated_answer": record.get_text("generated_answer") or find_last_answer(steps),
        "reasoning_steps": (),
        "used_bullet_ids": record.list_texts("used_bullet_ids"),
        "cited_bullet_ids": record.list_texts("cited_bullet_ids"),
        "status": record.get_text("status") or ("success" if is_success else "failure"),
        "error_message": record.get_text("error_message") or None,
        "reward": reward,
        **({} if "usage" in overrides else {"usage": read_usage(record.get_child("usage"))}),
        **overrides,
        **(outcome.fields if outcome else {}),
    }
    if "query" not in fields:
        fields["query"] = find_query(record, steps)
    trajectory = build_model(Trajectory, record.location, steps=steps, **fields)
    report = outcome.report if outcome else record.get_text("test_report")
    return RecordedTrajectory(trajectory, record.get_text("ground_truth"), report, domain)
